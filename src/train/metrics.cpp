#include "train/metrics.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <cmath>
#include <ctime>

#include "base/text.h"

namespace orthobatch::train {
namespace {

std::optional<double> finite(double x) {
  return std::isfinite(x) ? std::optional<double>(x) : std::nullopt;
}

/// Five digits: a curve is looked at.
double rounded(double x) { return std::stod(fmt::format("{:.5g}", x)); }

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

run::EpochRecord begun_record(const TrainState& state) {
  run::EpochRecord record;
  record.epoch = state.epoch + 1;
  record.steps = state.step;
  record.images = state.images;
  record.settings = state.schedule.now;
  record.time.finished = utc_now();
  record.time.train_seconds = state.seconds;
  return record;
}

}  // namespace

std::vector<run::LayerRecord> layer_records(const std::vector<LayerSummary>& layers,
                                            const std::vector<int64_t>& exchanges) {
  std::vector<run::LayerRecord> out;
  for (const LayerSummary& l : layers) {
    const size_t i = out.size();
    out.push_back({l.name, l.spec, l.num_features, finite(l.condition_number), finite(l.effective_rank),
                   l.floored, l.null, i < exchanges.size() ? exchanges[i] : 0});
  }
  return out;
}

run::EpochRecord epoch_record(const TrainState& state, const Evaluation& test, double test_seconds,
                              const run::Decision& decision) {
  const auto images = static_cast<double>(state.images);
  run::EpochRecord record = begun_record(state);
  record.train_loss = state.loss_sum / images;
  record.curve_every = state.curve.every;
  for (const double loss : state.curve.loss) record.curve.push_back(rounded(loss));
  record.train_error_percent = 100.0 * static_cast<double>(state.wrong) / images;
  record.test = {test.error_percent(), finite(test.loss)};
  record.decision = decision;
  record.layers = state.layers;
  record.time.test_seconds = test_seconds;
  record.time.images_per_second = images / state.seconds;
  record.time.waited_seconds = state.waited;
  record.time.waited_percent = 100 * state.waited / state.seconds;
  return record;
}

run::EpochRecord diverged_record(const TrainState& state, const std::string& reason) {
  run::EpochRecord record = begun_record(state);
  record.diverged = reason;
  return record;
}

std::vector<std::pair<std::string, double>> scalars_of(const run::EpochRecord& r) {
  std::vector<std::pair<std::string, double>> out;
  const auto add = [&](const std::string& tag, std::optional<double> value) {
    if (value) out.emplace_back(tag, *value);
  };
  add("loss/train", r.train_loss);
  add("loss/test", r.test.loss);
  add("error_percent/train", r.train_error_percent);
  add("error_percent/test", r.test.error_percent);
  add("schedule/learning_rate", r.settings.learning_rate);
  add("schedule/batch", static_cast<double>(r.settings.batch));
  add("schedule/momentum", r.settings.momentum);
  add("schedule/alpha", r.settings.alpha);
  add("speed/images_per_second", r.time.images_per_second);
  add("speed/waited_percent", r.time.waited_percent);
  add("speed/exchange_percent", r.time.exchange_percent);
  for (const run::LayerRecord& layer : r.layers) {
    add("condition_number/" + layer.name, layer.condition_number);
    add("effective_rank/" + layer.name, layer.effective_rank);
    add("floored/" + layer.name, static_cast<double>(layer.floored));
    add("null/" + layer.name, static_cast<double>(layer.null));
    add("exchanges/" + layer.name, static_cast<double>(layer.exchanges));
  }
  return out;
}

std::string epoch_text(const run::EpochRecord& r, int64_t epochs, bool best) {
  return fmt::format(
      "epoch {}/{}: test error {:.2f} %{} loss {:.4f}, training error {:.2f} % loss {:.4f}, "
      "learning rate {:.4g}, batch {}, {:.0f} images/s, {} ({:.2f} % of it waiting for images{})",
      r.epoch, epochs, r.test.error_percent, best ? " (best)" : "", r.test.loss.value_or(NAN),
      r.train_error_percent, r.train_loss, r.settings.learning_rate, r.settings.batch,
      r.time.images_per_second, base::duration_text(r.time.train_seconds + r.time.test_seconds),
      r.time.waited_percent,
      r.time.exchange_percent
          ? fmt::format(", {:.1f} % between processes", *r.time.exchange_percent)
          : "");
}

}  // namespace orthobatch::train
