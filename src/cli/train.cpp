// orthobatch train: trains the paper's nets, or goes on with a run.

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "cli/reading.h"
#include "cli/restart.h"
#include "cli/terminal.h"
#include "cli/train_arguments.h"
#include "cli/verbs.h"
#include "data/catalogue.h"
#include "io/file.h"
#include "io/json.h"
#include "nn/message.h"
#include "orthobatch/spec.h"
#include "orthobatch/version.h"
#include "ranks/ranks.h"
#include "run/names.h"
#include "run/origin.h"
#include "run/run_record.h"
#include "train/net_pictures.h"
#include "train/resume.h"
#include "train/threads.h"
#include "train/trainer.h"

namespace orthobatch::cli {
namespace {

/// Where a new run goes.
std::string folder_of(const TrainArguments& a, const run::TrainConfig& config) {
  return a.out.empty() ? io::join_path("runs", run::run_name(config.data, run::layers_text(config),
                                                             config.seed))
                       : a.out;
}

void require_new(const std::string& path) {
  if (io::file_exists(io::join_path(path, run::config_name)))
    throw std::invalid_argument(fmt::format(
        "{} already holds a run: continue it with --resume {}, or give another --out", path, path));
}

void require_old(const std::string& path) {
  if (!io::file_exists(io::join_path(path, run::config_name)))
    throw io::FileError(io::join_path(path, run::config_name), "file", "the config of a run",
                        "none");
}

void announce(const run::TrainConfig& config, const data::DataSet& data, const std::string& path,
              train::Progress& progress) {
  if (const std::string note = restart_note(); !note.empty()) progress.line(note);
  const auto several = [](int n, const char* what) {
    return fmt::format("{} {}{}", n, what,
                       n == 1                               ? ""
                       : what[std::strlen(what) - 1] == 's' ? "es"
                                                            : "s");
  };
  const std::string hands = config.processes == 1
                                ? several(config.threads, "thread")
                                : several(config.processes, "process") + " with " +
                                      several(config.threads, "thread") + " each";
  progress.line(fmt::format("{} on {}: {} training and {} test images{}, seed {}, {}, in {}",
                            run::layers_text(config), config.data, count_text(data.train.count()),
                            count_text(data.test.count()), data.own ? ", " + shape_text(data) : "",
                            config.seed, hands, path));
}

/// The run that the leader has in hand: new, or opened again.
struct LedRun {
  std::unique_ptr<train::RunFolder> folder;
  train::Resumption run;
};

LedRun open_old(const TrainArguments& a, int processes) {
  LedRun out;
  out.folder = std::make_unique<train::RunFolder>(a.resume);
  out.run = train::open_run(*out.folder, changes_of(a, processes));
  run::require_named_or_made_here(out.folder->config(), out.run.config.data, out.run.origin,
                                  !a.data_dir.empty());
  if (!out.run.complaint.empty()) {
    complain(out.run.complaint);
    complain(fmt::format("continuing from {}", out.run.checkpoint->path));
  }
  return out;
}

/// Only once there is data: nothing is written before.
void make_folder(LedRun& led, const std::string& path) {
  led.folder = std::make_unique<train::RunFolder>(path);
  if (led.folder->has_run())
    throw std::invalid_argument(fmt::format(
        "{} holds checkpoints of a run, but not its config.json: give another --out", path));
}

/// For a report of the run, which is none the worse trained without them.
void draw_for_report(const std::string& path, const data::DataSet& data,
                     const run::TrainConfig& config) {
  try {
    train::draw_pictures(path, data, config);
  } catch (const std::exception& error) {
    complain(fmt::format("warning: no heat maps for a report: {}", message_of(error)));
  }
}

int finish(train::Trainer& trainer, const std::string& path, train::Progress& progress,
           const ranks::Ranks& ranks) {
  const std::string way_on = fmt::format("continue with: orthobatch train --resume {}", path);
  try {
    if (trainer.run() == train::Trainer::Outcome::stopped) {
      if (ranks.leads())
        complain(fmt::format("stopped in epoch {} after {} steps; {}", trainer.state().epoch + 1,
                             trainer.state().step, way_on));
      return interrupted_code();
    }
  } catch (const ranks::RankError& error) {
    throw ranks::RankError(
        fmt::format("{}; the last checkpoint is intact: {}", error.what(), way_on));
  }
  if (!trainer.stopped_early().empty())
    progress.line(fmt::format("stopped early, after epoch {}: {}", trainer.state().epoch,
                              trainer.stopped_early()));
  const train::BestEpoch& best = trainer.state().best;
  progress.line(fmt::format("best epoch {}: test error {:.2f} %, loss {:.4f}; run in {}",
                            best.epoch, best.test_error_percent, best.test_loss, path));
  return 0;
}

data::DataSet data_of(const TrainArguments& a, const run::TrainConfig& config, bool silent) {
  return read_data(
      {config.data, a.data_dir, config.subset, config.image_size, a.follow_links, config.threads},
      {silent, a.quiet, a.strict});
}

/// A run, or as one of several ranks a part of it: new with this config, or, without one, resumed.
int train(const TrainArguments& a, const std::optional<run::TrainConfig>& new_config,
          ranks::Ranks& ranks) {
  const bool anew = new_config.has_value();
  LedRun led;
  if (ranks.leads() && !anew) led = open_old(a, ranks.size());
  run::TrainConfig config = anew ? *new_config : led.run.config;
  const std::string text = ranks.broadcast(to_json(config).dump());
  if (!ranks.leads()) {
    config = run::config_from_json(io::parse_json(text, "rank 0"), "rank 0");
    // Those are each process's own.
    if (a.threads) config.threads = *a.threads;
    if (a.augment_threads) config.augment_threads = *a.augment_threads;
    run::check_config(config);
  }
  train::use_threads(config.threads);
  const std::string path = anew ? folder_of(a, config) : a.resume;
  const data::DataSet data = data_of(a, config, !ranks.leads());
  run::map_sizes(config.net, data.train.height, data.train.width);  // before anything is written
  ranks.agree("data", train::describe_data(data));
  if (ranks.leads() && anew) make_folder(led, path);
  const std::unique_ptr<train::Progress> progress = terminal_progress(a.quiet || !ranks.leads());
  announce(config, data, path, *progress);
  train::Trainer trainer(config, data, led.folder.get(), *progress, interrupted(), ranks);
  stop_on_signals();
  if (!ranks.leads()) {
    trainer.follow();
  } else if (led.run.checkpoint) {
    trainer.resume(std::move(led.run));
    progress->line(fmt::format("continuing after epoch {}, step {}", trainer.state().epoch,
                               trainer.state().step));
  } else {
    trainer.begin();
  }
  const int code = finish(trainer, path, *progress, ranks);
  if (code == 0 && ranks.leads()) draw_for_report(path, data, config);
  return code;
}

/// Throws where a training with this config could not begin: the sizes of the maps, the share of
/// each process. What remains is divergence, and a disk that fills up.
void check_training(const run::TrainConfig& config, const data::DataSet& data) {
  run::map_sizes(config.net, data.train.height, data.train.width);
  const int64_t batch = std::min(config.schedule.batch, data.train.count());
  if (batch < config.processes)
    throw std::invalid_argument(
        fmt::format("expected an image of a batch for each of {} processes, found {} images in all",
                    config.processes, data.train.count()));
}

/// Throws FileError where the folder of a new run could not be made.
void check_place_of_run(const std::string& path) {
  std::string there = path;
  while (!io::file_exists(there) && io::parent_path(there) != there) there = io::parent_path(there);
  if (!std::filesystem::is_directory(there))
    throw io::FileError(there, "folder", fmt::format("one for the run {}", path), "a file");
  if (::access(there.c_str(), W_OK | X_OK) != 0)
    throw io::FileError(path, fmt::format("cannot write in {}", there), errno);
}

/// All that can be checked before a training, and its config as --config takes it; nothing is
/// written.
int dry_run(const TrainArguments& a, const run::TrainConfig& config, const std::string& path) {
  const data::DataSet data = data_of(a, config, /*silent=*/false);
  check_training(config, data);
  if (a.resume.empty()) check_place_of_run(path);
  announce(config, data, path, *terminal_progress(a.quiet));
  nlohmann::ordered_json text = {{"version", ORTHOBATCH_VERSION}};
  text.update(to_json(config));
  fmt::print("{}\n", text.dump(2));
  return 0;
}

/// Mistakes are told here, before any rank is started.
int start(const TrainArguments& a) {
  const int asked = or_usage_error([&] { return processes_asked_for(a.ranks); });
  nlohmann::json about = {{"verb", "train"}};
  if (a.resume.empty()) {
    const run::TrainConfig config = config_of(a);
    require_new(folder_of(a, config));
    if (a.dry_run) return dry_run(a, config, folder_of(a, config));
    if (config.processes > 1) require_for_all("--config", a.config);
    about["config"] = run::deciding_settings(config);
    about["fold"] = config.net.fold;
    return run_in_ranks(a.ranks, config.processes, about,
                        [&](ranks::Ranks& ranks) { return train(a, config, ranks); });
  }
  or_usage_error([&] {
    for (const run::Setting& change : settings_of(a)) run::require_changeable(change);
  });
  if (!is_rank()) require_old(a.resume);  // on other hosts than rank 0's it need not be
  const int processes = asked > 0 ? asked : run::read_run(a.resume).processes;
  if (!is_rank()) {
    const run::TrainConfig config = config_of_old(a, processes);
    if (a.dry_run) return dry_run(a, config, a.resume);
  }
  about["resumes"] = true;
  return run_in_ranks(a.ranks, processes, about,
                      [&](ranks::Ranks& ranks) { return train(a, std::nullopt, ranks); });
}

/// The default and the range of a setting, as its table in src/run/config.cpp has them.
CLI::Option* as_setting(CLI::Option* option, const std::string& key) {
  const run::SettingInfo& s = run::setting_info(key);
  option->default_str(s.value.is_string() ? s.value.get<std::string>()
                                          : base::number_text(s.value.get<double>()));
  if (!s.value.is_number()) return option;
  const auto [low, high, ends] = s.range;
  if (s.integer)
    return option->check(whole_number(static_cast<int64_t>(low), static_cast<int64_t>(high)));
  return option->check(ends == io::Range::above_low    ? number_above(low, high)
                       : ends == io::Range::below_high ? number_below(low, high)
                                                       : number_between(low, high));
}

}  // namespace

void add_train(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("train", "Trains one of the paper's nets");
  auto a = std::make_shared<TrainArguments>();
  auto* data =
      verb->add_option(
              "--data", a->data,
              "mnist, fashion-mnist, cifar10, svhn (train and extra), svhn-train or synthetic; or "
              "DIR, a folder of your own PNG and JPEG images: DIR/train/CLASS/ and "
              "DIR/test/CLASS/, or DIR/CLASS/, of which a tenth is used for testing; or a folder "
              "of idx files, as MNIST's")
          ->type_name(fmt::format("{}|DIR", fmt::join(data::data_names(), "|")))
          ->default_str("mnist");
  auto* image_size = add_image_size(*verb, a->image_size);
  verb->add_flag("--strict", a->strict,
                 "Fail on a file that is no image, or damaged, in place of skipping it");
  auto* layer = verb->add_option("--layer", a->layers,
                                 "Layer spec for all blocks; repeat the option for one spec per "
                                 "block")
                    ->default_str("BN")
                    ->take_all()
                    ->expected(1)
                    ->allow_extra_args(false)
                    ->type_name("SPEC");
  as_setting(verb->add_option("--epochs", a->epochs, "Epochs to train"), "epochs");
  verb->add_option("--target-error", a->target_error,
                   "Stop after an epoch with a test error of X % or less")
      ->check(number_between(0, 100))
      ->default_str("none");
  verb->add_option("--patience", a->patience, "Stop after N epochs without improvement")
      ->check(whole_number(1, 100000))
      ->default_str("none");
  auto* config =
      verb->add_option("--config", a->config, "JSON file with settings; other options override it")
          ->type_name("FILE")
          ->default_str("none");
  auto* head = verb->add_option("--head", a->head,
                                "Input of the last, linear layer: flat (all pixels of the maps), "
                                "average or max (of each channel)")
                   ->type_name("flat|average|max");
  as_setting(head, "head");
  auto* padding =
      verb->add_option("--padding", a->padding, "Padding of the convolutions: valid (none) or same")
          ->type_name("valid|same");
  as_setting(padding, "padding");
  auto* out = verb->add_option("-o,--out", a->out, "Folder of the run")
                  ->type_name("DIR")
                  ->default_str("runs/DATA-LAYER-seedN");
  auto* seed = verb->add_option("--seed", a->seed, "Seed of weights, order and augmentation")
                   ->check(seed_number())
                   ->default_str(run::setting_info("seed").value.dump());
  auto* subset =
      verb->add_option("--subset", a->subset, "Number of training images, the first ones; 0: all")
          ->check(whole_number(0, 1000000000))
          ->default_str("0");
  auto* batch =
      as_setting(verb->add_option("--batch", a->batch, "Initial batch size"), "schedule.batch");
  auto* rate =
      as_setting(verb->add_option("--learning-rate", a->learning_rate, "Initial learning rate"),
                 "schedule.learning_rate");
  auto* momentum = as_setting(
      verb->add_option("--momentum", a->momentum, "Initial momentum of SGD"), "schedule.momentum");
  as_setting(verb->add_option("--threads", a->threads, threads_text), "threads");
  auto* workers = as_setting(verb->add_option("--augment-threads", a->augment_threads,
                                              "Number of threads that prepare batches"),
                             "augment_threads");
  add_data_directory(*verb, a->data_dir);
  add_follow_links(*verb, a->follow_links);
  verb->add_option(
          "--set", a->settings,
          "A setting as in config.json, such as schedule.learning_rate=0.1; may be repeated. Other "
          "options override it. With --resume: schedule.*, augment.*, stop.*, "
          "refresh_images, checkpoint_minutes")
      ->type_name("KEY=VALUE")
      ->default_str("none")
      ->take_all()
      ->allow_extra_args(false);
  add_process_options(*verb, a->ranks, training_together);
  verb->add_flag("--dry-run", a->dry_run,
                 "Check settings and data and print the config as JSON for --config; write "
                 "nothing");
  verb->add_flag("--quiet", a->quiet, "Print only errors");
  verb->add_option("--resume", a->resume,
                   "Folder of a run to continue, with its own settings. Options that may be given "
                   "with it: --epochs, --target-error, --patience, --threads, --processes, "
                   "--timeout, --set, --data-dir, --follow-links, --strict, --dry-run and --quiet "
                   "(other threads or processes change the last digits of the results)")
      ->type_name("DIR")
      ->default_str("none");
  const std::vector<CLI::Option*> of_a_new_run = {data,    image_size, layer,  config, head,
                                                  padding, out,        seed,   subset, batch,
                                                  rate,    momentum,   workers};
  verb->callback([&run, a, of_a_new_run] {
    for (const CLI::Option* option : of_a_new_run)
      if (!a->resume.empty() && option->count() > 0)
        throw CLI::ValidationError(option->get_name(),
                                   "expected only in a new run, found with --resume");
    run = [a] {
      keep_freed_memory();
      return start(*a);
    };
  });
}

}  // namespace orthobatch::cli
