#include "train/train_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "io/json.h"

namespace orthobatch::train {
namespace {

using nlohmann::json;

/// The table of the state: each member, its name and its range.
template <typename State, typename Fields>
void state_members(State& s, Fields& f) {
  f.integer("epoch", s.epoch, {0, 100000});
  f.text("metrics_md5", s.metrics_md5);
  f.integer("step", s.step);
  f.integer("wrong", s.wrong);
  f.number("loss_sum", s.loss_sum, {0});
  f.number("seconds", s.seconds, {0});
  f.number("waited", s.waited, {0});
  run::layer_list(s.layers, f);
  f.numbers("exchanges", s.exchanges);
  f.group("curve", [&](auto& g) {
    g.integer("every", s.curve.every, {0, 1e9});
    g.numbers("loss", s.curve.loss, {0});
    g.number("sum", s.curve.sum, {0});
    g.integer("steps", s.curve.steps, {0, 1e9});
  });
  f.group("schedule", [&](auto& g) {
    g.group("now", [&](auto& now) { run::step_members(s.schedule.now, now); });
    g.nullable("lowest_loss", s.schedule.lowest_loss, {0});
    g.integer("slow_count", s.schedule.slow_count);
  });
  f.group("best", [&](auto& g) {
    g.integer("epoch", s.best.epoch);
    g.number("test_error_percent", s.best.test_error_percent, {0, 100});
    g.number("test_loss", s.best.test_loss, {0});
  });
}

void require(bool holds, const char* name, const std::string& expected, int64_t found) {
  if (!holds)
    throw std::invalid_argument(
        fmt::format("state: {}: expected {}, found {}", name, expected, found));
}

/// What the epoch under way has come to is what so many steps of its batch come to.
void check_epoch(const TrainState& s, size_t layers, int64_t steps) {
  const auto size = [](const auto& list) { return static_cast<int64_t>(list.size()); };
  require(s.step <= steps, "step", fmt::format("at most {}, the steps of an epoch", steps), s.step);
  require(s.wrong <= s.images, "wrong", fmt::format("at most {}, the images", s.images), s.wrong);
  require(s.exchanges.size() == (s.step > 0 ? layers : 0), "exchanges", "one a layer",
          size(s.exchanges));
  require(s.layers.size() == (s.step == steps ? layers : 0), "layers",
          s.step == steps ? "one a layer" : "none before the last step", size(s.layers));
  const int64_t drawn = std::min(size(s.curve.loss), s.step) * s.curve.every + s.curve.steps;
  require(drawn == s.step, "curve", fmt::format("{} steps", s.step), drawn);
}

/// The settings of the moment must be such as the rules may give.
void check_schedule(const TrainState& s, run::ScheduleRules rules) {
  rules.learning_rate = s.schedule.now.learning_rate;
  rules.momentum = s.schedule.now.momentum;
  rules.batch = s.schedule.now.batch;
  rules.alpha_start = s.schedule.now.alpha;
  rules.alpha_end = std::max(rules.alpha_end, rules.alpha_start);
  try {
    run::check_rules(rules);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("state: ") + error.what());
  }
  require(s.schedule.slow_count <= s.epoch, "schedule: slow_count", "at most the epochs",
          s.schedule.slow_count);
  require(s.schedule.lowest_loss.has_value() == (s.epoch > 0), "schedule: lowest_loss",
          "a number after the first epoch, null before", s.epoch);
  require(s.best.epoch <= s.epoch && (s.best.epoch > 0) == (s.epoch > 0), "best: epoch",
          s.epoch > 0 ? fmt::format("1 to {}", s.epoch) : "0", s.best.epoch);
}

}  // namespace

void LossCurve::add(double value, int64_t steps_in_epoch) {
  constexpr int64_t points = 24;  // in an epoch, or so
  if (every == 0) every = std::max<int64_t>(1, steps_in_epoch / points);
  sum += value;
  if (++steps < every) return;
  loss.push_back(sum / static_cast<double>(steps));
  sum = 0;
  steps = 0;
}

std::string state_text(const TrainState& state) {
  io::JsonWriter writer;
  state_members(state, writer);
  return writer.out.dump();
}

TrainState parse_state(const std::string& text, const run::TrainConfig& config,
                       int64_t train_images) {
  const json object = io::parse_json(text, "state");
  TrainState state;
  io::JsonFields fields(object, "state", io::JsonFields::Kind::state);
  state_members(state, fields);
  check_schedule(state, config.schedule);
  const int64_t batch = std::min(state.schedule.now.batch, train_images);
  state.images = std::min(state.step, train_images) * batch;
  check_epoch(state, config.net.blocks.size(), train_images / batch);
  return state;
}

}  // namespace orthobatch::train
