#include "train/metrics.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <cmath>
#include <ctime>

#include "train/progress.h"

namespace orthobatch {
namespace {

using nlohmann::ordered_json;

ordered_json finite_or_null(double x) {
  return std::isfinite(x) ? ordered_json(x) : ordered_json();
}

/// Five digits: a curve is looked at.
double rounded(double x) { return std::stod(fmt::format("{:.5g}", x)); }

ordered_json settings_of(const TrainState& state) {
  const StepSettings& now = state.schedule.now;
  return {{"epoch", state.epoch + 1}, {"steps", state.step},
          {"images", state.images},   {"learning_rate", now.learning_rate},
          {"batch", now.batch},       {"momentum", now.momentum},
          {"alpha", now.alpha}};
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

ordered_json layers_json(const std::vector<LayerSummary>& layers,
                         const std::vector<int64_t>& exchanges) {
  ordered_json out = ordered_json::array();
  for (const LayerSummary& l : layers) {
    const size_t i = out.size();
    out.push_back({{"name", l.name},
                   {"spec", l.spec},
                   {"channels", l.channels},
                   {"condition_number", finite_or_null(l.condition_number)},
                   {"effective_rank", finite_or_null(l.effective_rank)},
                   {"floored", l.floored},
                   {"null", l.null},
                   {"exchanges", i < exchanges.size() ? exchanges[i] : 0}});
  }
  return out;
}

ordered_json epoch_record(const TrainState& state, const Evaluation& test, double test_seconds,
                          const Decision& decision) {
  const auto images = static_cast<double>(state.images);
  ordered_json record = settings_of(state);
  record["train_loss"] = state.loss_sum / images;
  record["curve"] = {{"every", state.curve.every}, {"loss", ordered_json::array()}};
  for (const double loss : state.curve.loss) record["curve"]["loss"].push_back(rounded(loss));
  record["train_error_percent"] = 100.0 * static_cast<double>(state.wrong) / images;
  record["test_loss"] = finite_or_null(test.loss);
  record["test_error_percent"] = test.error_percent();
  record["decision"] = {
      {"slow", decision.slow}, {"action", decision.action}, {"reason", decision.reason}};
  record["layers"] = state.layers;
  record["time"] = {
      {"finished", utc_now()},          {"train_seconds", state.seconds},
      {"test_seconds", test_seconds},   {"images_per_second", images / state.seconds},
      {"waited_seconds", state.waited}, {"waited_percent", 100 * state.waited / state.seconds}};
  return record;
}

ordered_json diverged_record(const TrainState& state, const std::string& reason) {
  ordered_json record = settings_of(state);
  record["diverged"] = reason;
  record["time"] = {{"finished", utc_now()}, {"train_seconds", state.seconds}};
  return record;
}

std::vector<std::pair<std::string, double>> scalars_of(const ordered_json& record) {
  std::vector<std::pair<std::string, double>> out;
  const auto add = [&](const std::string& tag, const ordered_json& value) {
    if (value.is_number()) out.emplace_back(tag, value.get<double>());
  };
  add("loss/train", record.at("train_loss"));
  add("loss/test", record.at("test_loss"));
  add("error_percent/train", record.at("train_error_percent"));
  add("error_percent/test", record.at("test_error_percent"));
  for (const char* key : {"learning_rate", "batch", "momentum", "alpha"})
    add(std::string("schedule/") + key, record.at(key));
  add("speed/images_per_second", record.at("time").at("images_per_second"));
  add("speed/waited_percent", record.at("time").at("waited_percent"));
  for (const ordered_json& layer : record.at("layers"))
    for (const char* key : {"condition_number", "effective_rank", "floored", "null", "exchanges"})
      add(std::string(key) + "/" + layer.at("name").get<std::string>(), layer.at(key));
  return out;
}

std::string epoch_text(const ordered_json& r, int64_t epochs, bool best) {
  const auto number = [&](const char* key) {
    return r.at(key).is_number() ? r.at(key).get<double>() : NAN;
  };
  const ordered_json& time = r.at("time");
  return fmt::format(
      "epoch {}/{}: test error {:.2f} %{} loss {:.4f}, training error {:.2f} % loss {:.4f}, "
      "learning rate {:.4g}, batch {}, {:.0f} images/s, {}, waited {:.2f} %",
      r.at("epoch").get<int64_t>(), epochs, number("test_error_percent"), best ? " (best)" : "",
      number("test_loss"), number("train_error_percent"), number("train_loss"),
      number("learning_rate"), r.at("batch").get<int64_t>(),
      time.at("images_per_second").get<double>(),
      duration_text(time.at("train_seconds").get<double>() + time.at("test_seconds").get<double>()),
      time.at("waited_percent").get<double>());
}

}  // namespace orthobatch
