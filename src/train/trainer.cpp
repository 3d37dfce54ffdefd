#include "train/trainer.h"

#include <fmt/core.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/text.h"
#include "io/checksum.h"
#include "io/file.h"
#include "orthobatch/diagnostics.h"
#include "orthobatch/errors.h"
#include "orthobatch/modules.h"
#include "orthobatch/tools.h"
#include "orthobatch/version.h"
#include "run/origin.h"
#include "train/metrics.h"

namespace orthobatch::train {
namespace {

using nlohmann::ordered_json;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr int64_t refresh_batch = 500;
constexpr double largest_weight = 1e6;  // of a net that still trains

/// The rules with batches that there are images for: what the schedule says is what is done.
run::ScheduleRules rules_for(run::ScheduleRules rules, int64_t images) {
  const int64_t most = std::max<int64_t>(2, images);
  rules.batch = std::min(rules.batch, most);
  rules.max_batch = std::min(rules.max_batch, most);
  return rules;
}

}  // namespace

ordered_json describe_data(const data::DataSet& data) {
  ordered_json out = {{"train_images", data.train.count()},
                      {"test_images", data.test.count()},
                      {"image", {data.train.height, data.train.width, data.train.channels}},
                      {"mean", data.scale.mean},
                      {"deviation", data.scale.deviation},
                      {"md5", data.checksum}};
  if (data.own || data.classes != data::digit_names()) out["classes"] = data.classes;
  return out;
}

void require_same_data(const nlohmann::json& described, const data::DataSet& data,
                       const std::string& name) {
  const auto differences = io::differences(described, describe_data(data));
  if (differences.empty()) return;
  // A number of images says more than a mean of pixels.
  const auto count = std::find_if(
      differences.begin(), differences.end(),
      [](const io::Difference& d) { return d.key == "train_images" || d.key == "test_images"; });
  const io::Difference& d = count == differences.end() ? differences.front() : *count;
  throw std::invalid_argument(
      fmt::format("{}: the data is not what the run was trained on: {}: expected {}, found {}",
                  name, d.key, d.expected.dump(), d.found.dump()));
}

Trainer::Trainer(const run::TrainConfig& config, const data::DataSet& data, const RunFolder* folder,
                 Progress& progress, const std::atomic<bool>& stop, ranks::Ranks& ranks)
    : config_(config),
      data_(data),
      folder_(folder),
      progress_(progress),
      stop_(stop),
      ranks_(ranks),
      schedule_(rules_for(config.schedule, data.train.count())),
      loader_(data.train, data.scale, config.augment, config.seed, config.augment_threads,
              ranks.share_of_work()) {
  if (batch_now() < ranks.size())
    throw std::invalid_argument(
        fmt::format("expected an image of a batch for each of {} processes, found {} images in all",
                    ranks.size(), data.train.count()));
  ordered_json text = {{"version", ORTHOBATCH_VERSION}};
  text.update(to_json(config_));
  text["found"] = describe_data(data);
  if (folder_ && data.own) text["origin"] = run::origin_of(folder_->path(), data.folder);
  config_text_ = text.dump(2) + "\n";
}

/// The net to train, and an optimizer for it: the second group, where there is one, is S.
void Trainer::take_net(DigitNet net) {
  net_ = std::move(net);
  const run::ScheduleRules& rules = config_.schedule;
  std::vector<torch::Tensor> others, skews;
  for (const auto& parameter : net_->named_parameters())
    (base::ends_with(parameter.key(), ".skew") ? skews : others).push_back(parameter.value());
  std::vector<torch::optim::OptimizerParamGroup> groups = {
      torch::optim::OptimizerParamGroup(others)};
  if (!skews.empty()) groups.emplace_back(skews);
  optimizer_ =
      std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(rules.learning_rate)
                                                      .momentum(rules.momentum)
                                                      .weight_decay(rules.weight_decay));
}

/// Runs a part of the training. A layer refuses what overflows, and factorizations fail on it: then
/// the training diverged. With weights of an ordinary size the fault is another's.
template <typename Part>
void Trainer::or_diverge(const Part& part) {
  try {
    part();
  } catch (const FactorizationError& error) {
    diverge(error.what());
  } catch (const c10::Error& error) {
    if (blown_up()) diverge(error.what_without_backtrace());
    throw;
  }
}

void Trainer::begin() {
  // All that torch's generator is asked for is the weights the run starts from, here and in
  // initialize().
  torch::manual_seed(config_.seed);
  take_net(DigitNet(data_.train.shape(), config_.net, data_.train.classes));
  io::write_file(folder_->config(), config_text_);
  state_.schedule = schedule_.state();
  state_.metrics_md5 = io::md5_hex(metrics_.data(), metrics_.size());
  data::BatchLoader whole(data_.train, data_.scale, config_.augment, config_.seed, 1);
  whole.start(1, batch_now());
  or_diverge(
      [&] { initialize(net_, images_tensor(*whole.next()), config_.net.initial_deviation); });
  save();
  events_ = std::make_unique<EventWriter>(folder_->path(), 0);
  join_ranks();
}

void Trainer::resume(Resumption run) {
  Checkpoint& checkpoint = *run.checkpoint;
  require_same_data(checkpoint.found, data_, checkpoint.path);
  take_net(std::move(checkpoint.net));
  restore_momenta(checkpoint.momenta, net_, *optimizer_);
  state_ = std::move(checkpoint.state);
  schedule_.restore(state_.schedule);
  metrics_ = std::move(run.metrics);
  epochs_ = std::move(run.epochs);
  if (!run.changed.empty()) {
    ordered_json text = ordered_json::parse(config_text_);
    text["changed"] = run.changed;
    config_text_ = text.dump(2) + "\n";
  }
  // Before any checkpoint: it may be ahead of them, as open_run knows.
  io::write_file(folder_->config(), config_text_);
  write_metrics();
  if (state_.epoch < config_.epochs && run::stop_reason(config_.stop, epochs_).empty())
    events_ = std::make_unique<EventWriter>(folder_->path(), state_.epoch + 1);
  join_ranks();
}

void Trainer::follow() {
  take_net(DigitNet(data_.train.shape(), config_.net, data_.train.classes));
  join_ranks();
}

std::vector<torch::Tensor> Trainer::net_tensors() const {
  std::vector<torch::Tensor> out = net_->parameters();
  for (const torch::Tensor& buffer : net_->buffers()) out.push_back(buffer);
  return out;
}

/// Everything as the leader has it; from here on all ranks do the same.
void Trainer::join_ranks() {
  if (ranks_.alone()) return;
  const std::string state = ranks_.broadcast(state_text(state_));
  std::vector<torch::Tensor> momenta = momenta_of(net_, *optimizer_);
  const bool has_momenta = ranks_.broadcast(momenta.empty() ? "none" : "momenta") != "none";
  if (!ranks_.leads()) {
    state_ = parse_state(state, config_, data_.train.count());
    schedule_.restore(state_.schedule);
    if (has_momenta) {
      for (const torch::Tensor& p : net_->parameters()) momenta.push_back(torch::zeros_like(p));
      restore_momenta(momenta, net_, *optimizer_);
      momenta = momenta_of(net_, *optimizer_);
    }
  }
  std::vector<torch::Tensor> all = net_tensors();
  all.insert(all.end(), momenta.begin(), momenta.end());
  ranks_.share(all);
  convert_sync(*net_, ranks_.statistics());
  gradients_ = std::make_unique<GradientSum>(net_->parameters(), ranks_);
}

/// Of several ranks, where one was asked to; all of them after the same step.
bool Trainer::stops() const { return ranks_.alone() ? stop_.load() : all_stop_; }

Trainer::Outcome Trainer::run() {
  while (state_.epoch < config_.epochs) {
    // As the leader sees it: a loss that another rank rounds otherwise may be its better one.
    if (config_.stop.any())
      stopped_early_ = ranks_.broadcast(run::stop_reason(config_.stop, epochs_));
    if (!stopped_early_.empty()) break;
    if (!train_epoch() || !finish_epoch()) {
      progress_.clear();
      save();
      return Outcome::stopped;
    }
  }
  return Outcome::finished;
}

void Trainer::apply(const run::StepSettings& settings) {
  double factor = 1;
  for (auto& group : optimizer_->param_groups()) {
    auto& options = static_cast<torch::optim::SGDOptions&>(group.options());
    options.lr(settings.learning_rate * factor).momentum(settings.momentum);
    factor = config_.schedule.skew_factor;
  }
  net_->set_alpha(settings.alpha);
}

int64_t Trainer::batch_now() const { return std::min(schedule_.now().batch, data_.train.count()); }

int64_t Trainer::batch_of(const TrainState& state) const {
  return std::min(state.schedule.now.batch, data_.train.count());
}

/// Makes the steps of the epoch under way that are still to be made. False: stopped.
bool Trainer::train_epoch() {
  apply(schedule_.now());
  net_->train();
  loader_.start(state_.epoch + 1, batch_now(), state_.step);
  // Processors that round differently would drift apart.
  ranks_.share(net_tensors());
  const double seconds_before = state_.seconds, waited_before = state_.waited;
  const auto start = Clock::now();
  const double exchanged_before = ranks_.seconds_waited();
  auto saved = start;
  while (state_.step < loader_.steps()) {
    if (stops()) return false;
    or_diverge([&] {
      train_step(*loader_.next());
      // Before any save: a run resumed after the last step has no batch to look at.
      if (state_.step == loader_.steps())
        state_.layers = layer_records(summary(*net_), state_.exchanges);
    });
    state_.seconds = seconds_before + seconds_since(start);
    state_.waited = waited_before + loader_.waited();
    exchange_percent_ =
        100 * (ranks_.seconds_waited() - exchanged_before) / (state_.seconds - seconds_before);
    report_progress();
    if (seconds_since(saved) > 60 * config_.checkpoint_minutes) {
      save();
      saved = Clock::now();
    }
  }
  return true;
}

/// The images of a batch as the net takes them, channels last; no copy.
torch::Tensor Trainer::images_tensor(const data::Batch& batch) const {
  const int64_t h = data_.train.height, w = data_.train.width, c = data_.train.channels;
  return torch::from_blob(const_cast<float*>(batch.images.data()), {batch.count(), c, h, w},
                          {h * w * c, 1, w * c, c}, torch::kFloat);
}

void Trainer::train_step(const data::Batch& batch) {
  const torch::Tensor x = images_tensor(batch);
  const int64_t n = batch.count(), all = batch_now();
  const double share = static_cast<double>(n) / static_cast<double>(all);
  const torch::Tensor y =
      torch::from_blob(const_cast<int64_t*>(batch.labels.data()), {n}, torch::kLong);
  const torch::Tensor logits = net_(x);
  const torch::Tensor loss = torch::nn::functional::cross_entropy(logits, y);
  const int64_t right = logits.detach().argmax(1).eq(y).sum().item<int64_t>();
  // Of all ranks: the loss, the wrong answers, and whether to stop.
  const torch::Tensor sums = torch::tensor(
      {loss.item<double>() * share, static_cast<double>(n - right), stop_ ? 1.0 : 0.0},
      torch::kDouble);
  const double& value = sums.data_ptr<double>()[0];
  const auto require_finite = [&] {
    if (!std::isfinite(value)) diverge(fmt::format("loss {}", value));
  };
  if (gradients_) {
    const auto summed = ranks_.begin_sum(sums);
    gradients_->begin();
    (loss * share).backward();
    gradients_->finish();
    summed();
    require_finite();
  } else {
    require_finite();
    optimizer_->zero_grad();
    loss.backward();
  }
  all_stop_ = sums.data_ptr<double>()[2] > 0;
  optimizer_->step();
  state_.loss_sum += value * static_cast<double>(all);
  state_.wrong += static_cast<int64_t>(sums.data_ptr<double>()[1]);
  state_.images += all;
  ++state_.step;
  state_.curve.add(value, loader_.steps());
  state_.exchanges.resize(net_->blocks.size());
  for (size_t i = 0; i < net_->blocks.size(); ++i)
    state_.exchanges[i] += net_->blocks[i]->norm->last_batch().exchanges;
}

/// Evaluates, decides and saves. False: stopped.
bool Trainer::finish_epoch() {
  const auto start = Clock::now();
  std::optional<Evaluation> test;
  or_diverge([&] {
    refresh();
    test = evaluate(net_, data_.test, data_.scale, stop_, ranks_);
  });
  if (!test) return false;
  if (!std::isfinite(test->loss)) diverge(fmt::format("test loss {}", test->loss));
  const double train_loss = state_.loss_sum / static_cast<double>(state_.images);
  const run::Decision decision = schedule_.finish_epoch(state_.epoch + 1, train_loss);
  run::EpochRecord record = epoch_record(state_, *test, seconds_since(start), decision);
  record.settings.batch = batch_of(state_);
  if (!ranks_.alone()) record.time.exchange_percent = exchange_percent_;
  BestEpoch& best = state_.best;
  const bool is_best =
      best.epoch == 0 || run::better(record.test, {best.test_error_percent, best.test_loss});
  if (is_best) best = {state_.epoch + 1, test->error_percent(), test->loss};

  TrainState next;
  next.epoch = state_.epoch + 1;
  next.schedule = schedule_.state();
  next.best = best;
  metrics_ += to_json(record).dump() + "\n";
  next.metrics_md5 = io::md5_hex(metrics_.data(), metrics_.size());
  epochs_.push_back(record);
  state_ = std::move(next);
  save(is_best);
  if (events_) events_->scalars(state_.epoch, scalars_of(record));
  progress_.line(epoch_text(record, config_.epochs, is_best));
  if (decision.slow)
    progress_.line(fmt::format("  learning slows: {}: {}", decision.action, decision.reason));
  return true;
}

/// Statistics for the evaluation; see TrainConfig::refresh_images. The images are those the epoch's
/// order starts with.
void Trainer::refresh() {
  const int64_t count = std::min(config_.refresh_images, data_.train.count());
  if (count < 2) return;
  const int64_t batch = std::min(refresh_batch, count);
  data::BatchLoader plain(data_.train, data_.scale, data::Augmentation{}, config_.seed, 1,
                          ranks_.share_of_work());
  plain.start(state_.epoch + 1, batch);
  refresh_statistics(net_, count / batch, [&] {
    const auto made = plain.next();
    return images_tensor(*made).clone();
  });
}

void Trainer::save(bool best) {
  if (!folder_) return;
  try {
    // The lines first: those that a checkpoint lacks are made again, the other way round they
    // would be lost.
    write_metrics();
    if (best) folder_->save(folder_->best(), config_text_, state_, net_, *optimizer_);
    folder_->save(folder_->last(), config_text_, state_, net_, *optimizer_);
  } catch (const io::FileError& error) {
    throw std::runtime_error(error.what() + way_on(error));
  }
}

void Trainer::write_metrics() const { io::write_file(folder_->metrics(), metrics_); }

/// What is left and what helps after a write that failed; empty where the folder is gone.
std::string Trainer::way_on(const io::FileError& error) const {
  if (!io::file_exists(folder_->config())) return "";
  const bool full = error.error == ENOSPC || error.error == EDQUOT;
  std::error_code ignored;
  const bool kept = std::filesystem::is_regular_file(folder_->last(), ignored);
  return fmt::format("; {}{}, then train --resume {}",
                     kept ? "the checkpoint before it is intact: " : "",
                     full ? "free some space" : "repair that", folder_->path());
}

/// Whether the net has left the numbers it can be trained with.
bool Trainer::blown_up() const {
  for (const torch::Tensor& p : net_->parameters())
    if (!(p.abs().max().item<double>() < largest_weight)) return true;
  for (const torch::Tensor& b : net_->buffers())
    if (!b.isfinite().all().item<bool>()) return true;
  return false;
}

void Trainer::report_progress() {
  const double left = static_cast<double>(loader_.steps() - state_.step);
  const double done = static_cast<double>(state_.step), images = static_cast<double>(state_.images);
  const double left_epoch = state_.seconds / done * left;
  const double whole = state_.seconds / done * static_cast<double>(loader_.steps());
  progress_.update(
      {state_.epoch + 1, config_.epochs, state_.step, loader_.steps(), images / state_.seconds,
       state_.loss_sum / images, 100.0 * static_cast<double>(state_.wrong) / images, left_epoch,
       left_epoch + whole * static_cast<double>(config_.epochs - state_.epoch - 1), whole});
}

void Trainer::diverge(const std::string& what) {
  run::EpochRecord record = diverged_record(state_, what);
  record.settings.batch = batch_of(state_);
  if (folder_) io::write_file(folder_->metrics(), metrics_ + to_json(record).dump() + "\n");
  throw Diverged(fmt::format("training diverged in epoch {}, {}: {}", state_.epoch + 1,
                             state_.step < loader_.steps() ? fmt::format("step {}", state_.step + 1)
                                                           : "after its last step",
                             what));
}

}  // namespace orthobatch::train
