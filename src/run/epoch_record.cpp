#include "run/epoch_record.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "run/json_number.h"

namespace orthobatch {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr double no_limit = std::numeric_limits<double>::max();
constexpr int64_t most_epochs = 1'000'000, most_steps = 1'000'000'000'000;
constexpr int64_t most_channels = 1'000'000, most_exchanges = 1'000'000'000'000'000;

// --- writing -------------------------------------------------------------------------------------

/// JSON has no other way to say that a number is not finite.
ordered_json or_null(const std::optional<double>& x) {
  return x ? ordered_json(*x) : ordered_json();
}

ordered_json time_json(const EpochRecord& e) {
  const EpochTime& t = e.time;
  if (e.diverged) return {{"finished", t.finished}, {"train_seconds", t.train_seconds}};
  ordered_json out = {{"finished", t.finished},
                      {"train_seconds", t.train_seconds},
                      {"test_seconds", t.test_seconds},
                      {"images_per_second", t.images_per_second},
                      {"waited_seconds", t.waited_seconds},
                      {"waited_percent", t.waited_percent}};
  if (t.exchange_percent) out["exchange_percent"] = *t.exchange_percent;
  return out;
}

// --- reading -------------------------------------------------------------------------------------

std::optional<double> number_or_null(const json& object, const char* key) {
  if (object.contains(key) && object.at(key).is_null()) return std::nullopt;
  return number_of(object, key, 0, no_limit);
}

/// Members that a reader can do without: 0 or nothing where they are not there, or are null.
double number_if_there(const json& object, const char* key) {
  if (!object.contains(key) || object.at(key).is_null()) return 0;
  return number_of(object, key, 0, no_limit);
}
int64_t integer_if_there(const json& object, const char* key, int64_t high) {
  return object.contains(key) ? integer_of(object, key, 0, high) : 0;
}
std::string text_if_there(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

LayerRecord layer_from_json(const json& object) {
  LayerRecord layer;
  layer.name = text_if_there(object, "name");
  layer.spec = text_if_there(object, "spec");
  layer.channels = integer_of(object, "channels", 1, most_channels);
  layer.condition_number = number_or_null(object, "condition_number");
  layer.effective_rank = number_or_null(object, "effective_rank");
  layer.floored = integer_of(object, "floored", 0, most_channels);
  layer.null = integer_of(object, "null", 0, most_channels);
  layer.exchanges = integer_if_there(object, "exchanges", most_exchanges);
  return layer;
}

void read_curve(const json& line, EpochRecord& e) {
  if (!line.contains("curve")) return;
  const json& curve = line.at("curve");
  if (!curve.is_object() || !curve.contains("loss") || !curve.at("loss").is_array())
    throw std::invalid_argument("curve: expected a list \"loss\", found none");
  e.curve_every = integer_if_there(curve, "every", most_steps);
  constexpr size_t most_points = 1000;
  for (const json& loss : curve.at("loss")) {
    if (!loss.is_number() || !(loss.get<double>() >= 0) || !(loss.get<double>() <= no_limit) ||
        e.curve.size() == most_points)
      throw std::invalid_argument(
          fmt::format("curve: expected up to {} numbers, 0 or more, found {}", most_points,
                      e.curve.size() == most_points ? "more" : brief(loss)));
    e.curve.push_back(loss.get<double>());
  }
}

void read_decision(const json& line, Decision& decision) {
  const auto found = line.find("decision");
  if (found == line.end() || !found->is_object()) return;
  decision.slow = found->contains("slow") && found->at("slow") == true;
  decision.action = text_if_there(*found, "action");
  decision.reason = text_if_there(*found, "reason");
}

EpochTime time_from_json(const json& line) {
  const auto found = line.find("time");
  if (found == line.end() || !found->is_object())
    throw std::invalid_argument("time: expected an object, found " +
                                (found == line.end() ? "nothing" : brief(*found)));
  EpochTime t;
  t.finished = text_if_there(*found, "finished");
  t.train_seconds = number_of(*found, "train_seconds", 0, no_limit);
  t.test_seconds = number_if_there(*found, "test_seconds");
  t.images_per_second = number_if_there(*found, "images_per_second");
  t.waited_seconds = number_if_there(*found, "waited_seconds");
  t.waited_percent = number_if_there(*found, "waited_percent");
  if (found->contains("exchange_percent"))
    t.exchange_percent = number_of(*found, "exchange_percent", 0, no_limit);
  return t;
}

/// What every line has, of an epoch that ended or did not.
EpochRecord begun_from_json(const json& line) {
  EpochRecord e;
  e.epoch = integer_of(line, "epoch", 1, most_epochs);
  e.steps = integer_if_there(line, "steps", most_steps);
  e.images = integer_if_there(line, "images", most_images);
  e.settings.learning_rate = number_if_there(line, "learning_rate");
  e.settings.batch = integer_if_there(line, "batch", largest_batch);
  e.settings.momentum = number_if_there(line, "momentum");
  e.settings.alpha = number_if_there(line, "alpha");
  e.time = time_from_json(line);
  return e;
}

}  // namespace

bool better(const TestResult& a, const TestResult& b) {
  const auto loss = [](const TestResult& r) {
    return r.loss && std::isfinite(*r.loss) ? *r.loss : INFINITY;
  };
  return a.error_percent < b.error_percent ||
         (a.error_percent == b.error_percent && loss(a) < loss(b));
}

ordered_json to_json(const std::vector<LayerRecord>& layers) {
  ordered_json out = ordered_json::array();
  for (const LayerRecord& l : layers)
    out.push_back({{"name", l.name},
                   {"spec", l.spec},
                   {"channels", l.channels},
                   {"condition_number", or_null(l.condition_number)},
                   {"effective_rank", or_null(l.effective_rank)},
                   {"floored", l.floored},
                   {"null", l.null},
                   {"exchanges", l.exchanges}});
  return out;
}

ordered_json to_json(const EpochRecord& e) {
  const StepSettings& s = e.settings;
  ordered_json line = {{"epoch", e.epoch},   {"steps", e.steps},
                       {"images", e.images}, {"learning_rate", s.learning_rate},
                       {"batch", s.batch},   {"momentum", s.momentum},
                       {"alpha", s.alpha}};
  if (e.diverged) {
    line["diverged"] = *e.diverged;
    line["time"] = time_json(e);
    return line;
  }
  line["train_loss"] = e.train_loss;
  line["curve"] = {{"every", e.curve_every}, {"loss", e.curve}};
  line["train_error_percent"] = e.train_error_percent;
  line["test_loss"] = or_null(e.test.loss);
  line["test_error_percent"] = e.test.error_percent;
  line["decision"] = {
      {"slow", e.decision.slow}, {"action", e.decision.action}, {"reason", e.decision.reason}};
  line["layers"] = to_json(e.layers);
  line["time"] = time_json(e);
  return line;
}

std::vector<LayerRecord> layers_from_json(const json& list) {
  if (!list.is_array())
    throw std::invalid_argument("layers: expected a list, found " + brief(list));
  std::vector<LayerRecord> layers;
  for (const json& layer : list) {
    if (!layer.is_object())
      throw std::invalid_argument(
          fmt::format("layers[{}]: expected an object, found {}", layers.size(), brief(layer)));
    layers.push_back(layer_from_json(layer));
  }
  return layers;
}

EpochRecord epoch_from_json(const json& line) {
  if (!line.is_object()) throw std::invalid_argument("expected an object, found damaged text");
  EpochRecord e = begun_from_json(line);
  if (line.contains("diverged")) {
    const json& reason = line.at("diverged");
    e.diverged = reason.is_string() ? reason.get<std::string>() : brief(reason);
    return e;
  }
  for (const char* key : {"learning_rate", "batch"}) number_of(line, key, 0, no_limit);
  e.train_loss = number_of(line, "train_loss", 0, no_limit);
  read_curve(line, e);
  e.train_error_percent = number_of(line, "train_error_percent", 0, 100);
  e.test.loss = number_or_null(line, "test_loss");
  e.test.error_percent = number_of(line, "test_error_percent", 0, 100);
  read_decision(line, e.decision);
  e.layers = layers_from_json(line.contains("layers") ? line.at("layers") : json());
  return e;
}

}  // namespace orthobatch
