#include "experiment/reproduce.h"

#include <fmt/core.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/processor.h"
#include "base/text.h"
#include "io/file.h"
#include "nn/message.h"
#include "orthobatch/version.h"
#include "run/names.h"
#include "run/run_record.h"
#include "train/net_pictures.h"
#include "train/resume.h"
#include "train/run_folder.h"
#include "train/step_time.h"
#include "train/threads.h"
#include "train/trainer.h"

namespace orthobatch::experiment {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// What the leader says in place of a run's config.
constexpr const char *waits = "wait", *ends = "end";

/// What follows `key` and its separator in the first line of a file that starts with it.
std::string value_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t start = line.find_first_not_of(" \t:=\"", key.size());
    const size_t end = line.find_last_not_of(" \t\"");
    if (start != std::string::npos && end >= start) return line.substr(start, end - start + 1);
  }
  return "unknown";
}

/// What a run was made with, for the reader of a report.
ordered_json describe_machine() {
  const double pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  const double bytes = pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  return {{"orthobatch", ORTHOBATCH_VERSION},
          {"libtorch", TORCH_VERSION},
          {"compiler", "g++ " __VERSION__},
          {"system", value_in("/etc/os-release", "PRETTY_NAME")},
          {"processor", base::processor_name()},
          {"blas", to_string(base::blas_core())},
          {"threads", std::thread::hardware_concurrency()},
          {"memory", fmt::format("{:.0f} GiB", bytes / (1 << 30))}};
}

}  // namespace

Reproduction::Reproduction(const Experiment& experiment, const Experiment& all,
                           const ReproduceOptions& options, train::Progress& progress,
                           const std::atomic<bool>& stop, ranks::Ranks& ranks)
    : experiment_(experiment),
      all_(all),
      options_(options),
      progress_(progress),
      stop_(stop),
      ranks_(ranks) {
  run::TrainConfig config;
  config.threads = options_.threads;
  run::use_all_threads(config, options_.processes_here);
  options_.threads = config.threads;
  train::use_threads(options_.threads);
}

run::TrainConfig Reproduction::config_of(const Job& job) const {
  run::TrainConfig config = job.row->config;
  config.seed = job.seed;
  config.threads = options_.threads;
  config.processes = ranks_.size();
  run::check_config(config);
  return config;
}

void Reproduction::look(Job& job) const {
  const run::RunRecord run = run::read_run(job.path);
  job.diverged = run.diverged.has_value();
  job.epochs_done = run.last() ? run.last()->epoch : 0;
  job.stopped_early = !run::stop_reason(job.row->config.stop, run.epochs).empty();
}

void Reproduction::list_jobs() {
  size_t rounds = 0;
  for (const ExperimentRow& row : experiment_.rows) rounds = std::max(rounds, row.seeds.size());
  for (size_t round = 0; round < rounds; ++round)
    for (const ExperimentRow& row : experiment_.rows) {
      if (round >= row.seeds.size()) continue;
      const uint64_t seed = row.seeds[round];
      jobs_.push_back({jobs_.size() + 1, &row, seed, run_folder_path(options_.out, row, seed)});
      look(jobs_.back());
    }
}

void Reproduction::check_settings(const Job& job) const {
  const std::string path = io::join_path(job.path, run::config_name);
  if (!io::file_exists(path)) return;
  const run::TrainConfig found =
      run::config_from_json(io::parse_json(io::read_text(path), path), path);
  for (const io::Difference& d :
       io::differences(run::deciding_settings(config_of(job)), run::deciding_settings(found)))
    throw io::FileError(path, d.key, d.expected.dump(),
                        d.found.dump() + ": a run with other settings; give another --out");
}

/// Rows that were not chosen now stay in the report where they have runs.
void Reproduction::write_description() const {
  Experiment described = all_;
  described.rows.clear();
  for (const ExperimentRow& row : all_.rows) {
    const auto chosen = std::find_if(experiment_.rows.begin(), experiment_.rows.end(),
                                     [&](const ExperimentRow& r) { return r.name == row.name; });
    ExperimentRow kept = chosen != experiment_.rows.end() ? *chosen : row;
    if (chosen == experiment_.rows.end()) {
      const auto absent = [&](uint64_t seed) {
        return !io::file_exists(
            io::join_path(run_folder_path(options_.out, row, seed), run::config_name));
      };
      kept.seeds.erase(std::remove_if(kept.seeds.begin(), kept.seeds.end(), absent),
                       kept.seeds.end());
    }
    if (!kept.seeds.empty()) described.rows.push_back(kept);
  }
  ExperimentChanges nothing;
  apply(nothing, described);  // drops figures of rows that are not there
  ordered_json text = to_json(described);
  text["made"] = {{"command", options_.command}, {"with", describe_machine()}};
  text["made"]["with"]["threads used"] = options_.threads;
  io::write_file(io::join_path(options_.out, experiment_.name + run::experiment_suffix),
                 text.dump(1) + "\n");
}

const data::DataSet& Reproduction::data_for(const run::TrainConfig& config) {
  const std::string wanted = fmt::format("{} {} {}", config.data, config.subset, config.image_size);
  if (wanted != data_loaded_) {
    data_ = data::DataSet();  // not two at once: SVHN has 2 GB
    data_ = data::load_data(data::DataRequest{config.data, options_.data_dir, config.subset,
                                              config.image_size, false, config.threads});
    for (const std::string& line : data_.bad) progress_.line(line);
    data_loaded_ = wanted;
  }
  return data_;
}

bool Reproduction::train(const Job& job, const train::RunFolder& folder) {
  const run::TrainConfig config = config_of(job);
  const std::string failure = io::join_path(job.path, run::failed_name);
  std::error_code ignored;
  std::filesystem::remove(failure, ignored);
  bool begun = false;
  try {
    const data::DataSet& data = data_for(config);
    train::Resumption run;
    if (folder.has_run()) run = train::open_run(folder);
    if (!run.complaint.empty())
      progress_.line(fmt::format("{}; continuing from {}", run.complaint, run.checkpoint->path));
    begun = true;
    ranks_.broadcast(to_json(config).dump());
    ranks_.agree("data", train::describe_data(data));
    train::Trainer trainer(config, data, &folder, progress_, stop_, ranks_);
    if (run.checkpoint)
      trainer.resume(std::move(run));
    else
      trainer.begin();
    const bool finished = trainer.run() == train::Trainer::Outcome::finished;
    if (!trainer.stopped_early().empty())
      progress_.line(fmt::format("stopped early: {}", trainer.stopped_early()));
    return finished;
  } catch (const train::Diverged&) {
    throw;  // its line in metrics.jsonl says all
  } catch (const ranks::RankError&) {
    throw;
  } catch (const std::exception& error) {
    try {
      io::write_file(failure, message_of(error) + "\n");
    } catch (const io::FileError&) {
      // A full disk, most likely the failure itself: that one is worth reporting.
    }
    // The others are in the middle of it, and could not follow into the next row.
    if (begun && !ranks_.alone())
      throw ranks::RankError(fmt::format("{}: {}", job.label(), message_of(error)));
    throw;
  }
}

/// Of the first seed alone: a page shows one net of a row.
void Reproduction::draw(const Job& job) {
  if (job.seed != job.row->seeds.front()) return;
  const run::TrainConfig config = config_of(job);
  train::draw_pictures(job.path, data_for(config), config);
}

int64_t Reproduction::epochs_missing(const Job& job) const {
  return job.diverged || job.stopped_early
             ? 0
             : std::max<int64_t>(0, job.row->config.epochs - job.epochs_done);
}

void Reproduction::announce(const Job& job) {
  int64_t missing = 0, processes = 1;
  for (Job& other : jobs_) {
    if (other.settled || &other == &job) continue;
    look(other);
    missing += epochs_missing(other);
    processes += other.elsewhere && epochs_missing(other) > 0;
  }
  const double after = static_cast<double>(missing) / static_cast<double>(processes);
  const double each = epochs_made_ > 0 ? seconds_made_ / static_cast<double>(epochs_made_) : 0;
  const double left = after + static_cast<double>(epochs_missing(job));
  progress_.line(fmt::format(
      "[{}/{}] {} on {}: epoch {} to {}{}{}", job.number, jobs_.size(), job.label(),
      job.row->config.data, job.epochs_done + 1, job.row->config.epochs,
      each > 0 ? fmt::format(", about {} left in all", base::duration_text(each * left)) : "",
      processes > 1 ? fmt::format(", shared by {} processes", processes) : ""));
  progress_.set_overall(
      {static_cast<int64_t>(job.number), static_cast<int64_t>(jobs_.size()), after, each});
}

/// Trains what is missing of a run, draws its pictures, and notes what became of it.
void Reproduction::make(Job& job, Outcome& outcome) {
  try {
    std::optional<train::RunFolder> folder;
    if (epochs_missing(job) > 0) {
      folder.emplace(job.path);
      job.elsewhere = false;
      look(job);  // again: another process may have ended it in the meantime
    }
    const int64_t epochs = epochs_missing(job);
    if (epochs > 0) {
      announce(job);
      const auto start = std::chrono::steady_clock::now();
      outcome.stopped = !train(job, *folder);
      if (outcome.stopped) return;
      seconds_made_ +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const int64_t before = job.epochs_done;
      look(job);
      epochs_made_ += job.epochs_done - before;
      ++outcome.trained;
    } else {
      ++outcome.found_done;
      if (job.diverged) outcome.diverged.push_back(job.label() + ": diverged in a run before");
    }
    if (epochs > 0 || !io::file_exists(io::join_path(job.path, run::pictures_name))) draw(job);
  } catch (const train::RunInUse&) {
    job.elsewhere = true;
    return;
  } catch (const train::Diverged& error) {
    outcome.diverged.push_back(fmt::format("{}: {}", job.label(), error.what()));
    progress_.line(outcome.diverged.back());
    draw(job);  // of an epoch before
  } catch (const ranks::RankError&) {
    throw;
  } catch (const std::exception& error) {
    outcome.failed.push_back(fmt::format("{}: {}", job.label(), message_of(error)));
    progress_.line(outcome.failed.back());
  }
  job.settled = true;
}

/// Runs that another process has in hand are looked at again after all others, until it ends them
/// or is gone.
void Reproduction::make_all(Outcome& outcome) {
  int64_t told = 0;
  while (!outcome.stopped) {
    int64_t settled = 0, left = 0;
    for (Job& job : jobs_) {
      if (job.settled || outcome.stopped) continue;
      make(job, outcome);
      ++(job.settled ? settled : left);
    }
    if (left == 0 || outcome.stopped) return;
    if (settled > 0) continue;
    if (left != told)
      progress_.line(
          fmt::format("{} left, which another process is training: waiting for "
                      "it",
                      left));
    told = left;
    ranks_.broadcast(waits);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    outcome.stopped = stop_;
  }
}

void Reproduction::open() {
  list_jobs();
  for (const Job& job : jobs_) check_settings(job);
  // Data that is not there would fail every row: say so before the first.
  const auto missing = std::find_if(jobs_.begin(), jobs_.end(),
                                    [&](const Job& job) { return epochs_missing(job) > 0; });
  if (missing != jobs_.end()) data_for(missing->row->config);
}

std::string Reproduction::plan() {
  int64_t runs = 0, epochs = 0;
  const Job* first = nullptr;
  std::vector<double> seconds;  // an epoch of each run that has some
  for (const Job& job : jobs_) {
    if (const auto took = run::read_run(job.path).seconds_per_epoch()) seconds.push_back(*took);
    if (epochs_missing(job) == 0) continue;
    ++runs;
    epochs += epochs_missing(job);
    if (!first) first = &job;
  }
  if (!first)
    return fmt::format("nothing to train: {} of {} runs are done", jobs_.size(), jobs_.size());
  std::sort(seconds.begin(), seconds.end());
  double each = seconds.empty() ? 0 : seconds[seconds.size() / 2];
  if (seconds.empty()) {
    const run::TrainConfig config = config_of(*first);
    const data::ImageSet& train = data_for(config).train;
    const int64_t batch = std::min(config.schedule.batch, train.count());
    const int64_t share = std::max<int64_t>(1, batch / ranks_.size());
    each = train::step_seconds(config, train.shape(), train.classes, share) *
           static_cast<double>(train.count()) / static_cast<double>(batch);
  }
  return fmt::format("{} row{}, {} run{} to train, {} epoch{} of about {}: about {} in all",
                     experiment_.rows.size(), experiment_.rows.size() == 1 ? "" : "s", runs,
                     runs == 1 ? "" : "s", epochs, epochs == 1 ? "" : "s",
                     base::duration_text(each),
                     base::duration_text(each * static_cast<double>(epochs)));
}

void Reproduction::prepare() {
  io::make_directories(options_.out);
  write_description();
}

Reproduction::Outcome Reproduction::run() {
  Outcome outcome;
  make_all(outcome);
  ranks_.broadcast(ends);
  return outcome;
}

void Reproduction::follow() {
  while (true) {
    const std::string next = ranks_.broadcast("");
    if (next == ends) return;
    if (next == waits) continue;
    run::TrainConfig config = run::config_from_json(io::parse_json(next, "rank 0"), "rank 0");
    config.threads = options_.threads;
    const data::DataSet& data = data_for(config);
    ranks_.agree("data", train::describe_data(data));
    train::Trainer trainer(config, data, nullptr, progress_, stop_, ranks_);
    try {
      trainer.follow();
      trainer.run();
    } catch (const train::Diverged&) {
      // On all ranks: the leader tells it.
    }
  }
}

}  // namespace orthobatch::experiment
