#include "train/train_state.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "base/text.h"

namespace orthobatch {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr double no_limit = std::numeric_limits<double>::max();  // but finite
constexpr int64_t most = int64_t{1} << 53;

/// A value for a message: a line, and not a long one.
std::string short_text(const ordered_json& value) {
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  return text.size() <= 80 ? text : text.substr(0, 80) + "…";
}

[[noreturn]] void fail(const std::string& name, const std::string& expected,
                       const std::string& found) {
  throw std::invalid_argument(
      fmt::format("state: {}: expected {}, found {}", name, expected, found));
}

void require(bool holds, const std::string& name, const std::string& expected, double found) {
  if (!holds) fail(name, expected, number_text(found));
}

/// One table for reading and writing: each member of the state, its name and its range.
template <typename State, typename Fields>
void for_each_member(State& s, Fields& fields) {
  fields.integer("epoch", s.epoch);
  fields.integer("step", s.step);
  fields.integer("images", s.images);
  fields.integer("wrong", s.wrong);
  fields.number("loss_sum", s.loss_sum, 0, no_limit);
  fields.number("seconds", s.seconds, 0, no_limit);
  fields.number("waited", s.waited, 0, no_limit);
  fields.json("layers", s.layers);
  fields.object("curve", [&](auto& curve) {
    curve.integer("every", s.curve.every);
    curve.numbers("loss", s.curve.loss);
    curve.number("sum", s.curve.sum, 0, no_limit);
    curve.integer("steps", s.curve.steps);
  });
  fields.integers("exchanges", s.exchanges);
  fields.object("schedule", [&](auto& schedule) {
    schedule.object("now", [&](auto& now) {
      now.number("learning_rate", s.schedule.now.learning_rate, 0, no_limit);
      now.number("momentum", s.schedule.now.momentum, 0, 1);
      now.number("alpha", s.schedule.now.alpha, 0, 1);
      now.integer("batch", s.schedule.now.batch);
    });
    schedule.number_or_null("lowest_loss", s.schedule.lowest_loss);
    schedule.integer("slow_count", s.schedule.slow_count);
  });
  fields.object("best", [&](auto& best) {
    best.integer("epoch", s.best.epoch);
    best.number("test_error_percent", s.best.test_error_percent, 0, 100);
    best.number_or_infinity("test_loss", s.best.test_loss);
  });
  fields.json("history", s.history);
}

class Writer {
 public:
  ordered_json out = ordered_json::object();

  void integer(const char* name, int64_t value) { out[name] = value; }
  void number(const char* name, double value, double, double) { out[name] = value; }
  void number_or_null(const char* name, const std::optional<double>& value) {
    out[name] = value ? ordered_json(*value) : ordered_json();
  }
  void number_or_infinity(const char* name, double value) { out[name] = value; }  // as null
  void integers(const char* name, const std::vector<int64_t>& values) { out[name] = values; }
  void numbers(const char* name, const std::vector<double>& values) { out[name] = values; }
  void json(const char* name, const ordered_json& value) { out[name] = value; }
  template <typename Members>
  void object(const char* name, const Members& members) {
    Writer inner;
    members(inner);
    out[name] = std::move(inner.out);
  }
};

class Reader {
 public:
  Reader(const ordered_json& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  void integer(const char* name, int64_t& value) { value = count_of(member(name), name); }
  void number(const char* name, double& value, double least, double greatest) {
    value = number_of(member(name), name, least, greatest);
  }
  void number_or_null(const char* name, std::optional<double>& value) {
    const ordered_json& found = member(name);
    value = found.is_null() ? std::nullopt : std::optional(number_of(found, name, 0, no_limit));
  }
  void number_or_infinity(const char* name, double& value) {
    const ordered_json& found = member(name);
    value = found.is_null() ? std::numeric_limits<double>::infinity()
                            : number_of(found, name, 0, no_limit);
  }
  void integers(const char* name, std::vector<int64_t>& values) {
    for (const ordered_json& value : list(name)) values.push_back(count_of(value, name));
  }
  void numbers(const char* name, std::vector<double>& values) {
    for (const ordered_json& value : list(name))
      values.push_back(number_of(value, name, 0, no_limit));
  }
  void json(const char* name, ordered_json& value) { value = member(name); }
  template <typename Members>
  void object(const char* name, const Members& members) {
    const ordered_json& found = member(name);
    if (!found.is_object()) fail(where_ + name, "an object", short_text(found));
    Reader inner(found, where_ + name + ": ");
    members(inner);
  }

 private:
  const ordered_json& member(const char* name) const {
    const auto it = object_.find(name);
    if (it == object_.end()) fail(where_ + name, "it", "nothing");
    return *it;
  }
  const ordered_json& list(const char* name) const {
    const ordered_json& found = member(name);
    if (!found.is_array()) fail(where_ + name, "a list", short_text(found));
    return found;
  }
  int64_t count_of(const ordered_json& value, const char* name) const {
    if (!value.is_number_integer() || value < 0 || value > most)
      fail(where_ + name, "an integer, 0 or more", short_text(value));
    return value.get<int64_t>();
  }
  double number_of(const ordered_json& value, const char* name, double least,
                   double greatest) const {
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= greatest))
      fail(where_ + name,
           greatest == no_limit ? "a number, 0 or more"
                                : fmt::format("a number from {} to {}", least, greatest),
           short_text(value));
    return value.get<double>();
  }

  const ordered_json& object_;
  std::string where_;
};

/// What the epoch under way has come to is what so many steps of its batch come to.
void check_epoch(const TrainState& s, const TrainConfig& config, int64_t train_images) {
  const int64_t batch = std::min(s.schedule.now.batch, train_images);
  const int64_t steps = train_images / batch;
  require(s.step <= steps, "step", fmt::format("at most {}, the steps of an epoch", steps),
          static_cast<double>(s.step));
  require(s.images == s.step * batch, "images",
          fmt::format("{}, in {} steps of {}", s.step * batch, s.step, batch),
          static_cast<double>(s.images));
  require(s.wrong <= s.images, "wrong", fmt::format("at most {}, the images", s.images),
          static_cast<double>(s.wrong));
  require(s.step > 0 || s.loss_sum == 0, "loss_sum", "0 before the first step", s.loss_sum);
  const size_t blocks = config.net.blocks.size();
  require(s.exchanges.empty() || (s.step > 0 && s.exchanges.size() == blocks), "exchanges",
          fmt::format("{}, one a layer", blocks), static_cast<double>(s.exchanges.size()));
  const LossCurve& curve = s.curve;
  const auto points = static_cast<int64_t>(curve.loss.size());
  require(curve.every <= steps && curve.steps <= std::max<int64_t>(0, curve.every - 1) &&
              points <= s.step && points * curve.every + curve.steps <= s.step,
          "curve", fmt::format("{} steps", s.step),
          static_cast<double>(points * std::min(curve.every, steps) + curve.steps));
  const bool ended = s.step == steps;
  if (!(ended ? s.layers.is_array() && s.layers.size() == blocks : s.layers.is_null()))
    fail("layers", ended ? fmt::format("a list of {}", blocks) : "nothing before the last step",
         short_text(s.layers));
}

/// The lines that metrics.jsonl has of the layers.
void check_layers(ordered_json& layers) {
  for (ordered_json& layer : layers) {
    if (!layer.is_object() || !layer.contains("name") || !layer.at("name").is_string())
      fail("layers", "an object with a name each", short_text(layer));
    for (const char* key : {"condition_number", "effective_rank", "floored", "null", "exchanges"})
      if (!layer.contains(key) || !(layer.at(key).is_number() || layer.at(key).is_null()))
        fail("layers", fmt::format("a number '{}'", key), short_text(layer));
  }
}

/// The settings of the moment must be such as the rules may give.
void check_schedule(const TrainState& s, const TrainConfig& config) {
  ScheduleRules rules = config.schedule;
  rules.learning_rate = s.schedule.now.learning_rate;
  rules.momentum = s.schedule.now.momentum;
  rules.batch = s.schedule.now.batch;
  rules.alpha_start = s.schedule.now.alpha;
  rules.alpha_end = std::max(rules.alpha_end, rules.alpha_start);
  try {
    check_rules(rules);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("state: ") + error.what());
  }
  require(s.schedule.slow_count <= s.epoch, "schedule: slow_count", "at most the epochs",
          static_cast<double>(s.schedule.slow_count));
  if (s.schedule.lowest_loss.has_value() != (s.epoch > 0))
    fail("schedule: lowest_loss", s.epoch > 0 ? "a number" : "nothing before the first epoch ends",
         s.epoch > 0 ? "nothing" : "a number");
}

void check_history(const TrainState& s) {
  require(s.epoch <= 100000, "epoch", "at most 100000", static_cast<double>(s.epoch));
  require(s.best.epoch <= s.epoch && (s.best.epoch > 0) == (s.epoch > 0), "best: epoch",
          s.epoch > 0 ? fmt::format("1 to {}", s.epoch) : "0", static_cast<double>(s.best.epoch));
  if (!s.history.is_array() || s.history.size() != static_cast<size_t>(s.epoch))
    fail("history", fmt::format("a list of {} epochs", s.epoch),
         s.history.is_array() ? std::to_string(s.history.size()) : "something else");
  for (size_t i = 0; i < s.history.size(); ++i)
    if (!s.history[i].is_object() || !s.history[i].contains("epoch") ||
        s.history[i].at("epoch") != i + 1)
      fail(fmt::format("history[{}]", i), fmt::format("epoch {}", i + 1), short_text(s.history[i]));
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
  Writer writer;
  for_each_member(state, writer);
  return writer.out.dump();
}

std::string stop_reason(const StopRules& rules, const TrainState& state) {
  if (!rules.any()) return "";
  std::vector<EpochRecord> epochs;
  for (const ordered_json& line : state.history) epochs.push_back(epoch_from_json(line));
  return stop_reason(rules, epochs);
}

TrainState parse_state(const std::string& text, const TrainConfig& config, int64_t train_images) {
  parse_json(text, "state");  // for its bounds; what follows keeps the order of the lines' members
  const ordered_json object = ordered_json::parse(text);
  if (!object.is_object()) fail("itself", "an object", "something else");
  TrainState state;
  Reader reader(object, "");
  for_each_member(state, reader);
  check_history(state);
  check_schedule(state, config);
  check_epoch(state, config, train_images);
  if (state.layers.is_array()) check_layers(state.layers);
  return state;
}

}  // namespace orthobatch
