#include "run/epoch_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/text.h"

namespace orthobatch::run {
namespace {

using nlohmann::json;

template <typename Record, typename Fields>
void time_members(Record& e, Fields& f) {
  f.text("finished", e.time.finished);
  f.number("train_seconds", e.time.train_seconds, {0});
  if (e.diverged) return;
  f.number("test_seconds", e.time.test_seconds, {0});
  f.number("images_per_second", e.time.images_per_second, {0});
  f.number("waited_seconds", e.time.waited_seconds, {0});
  f.number("waited_percent", e.time.waited_percent, {0});
  f.optional("exchange_percent", e.time.exchange_percent, {0});
}

/// The table of a line: each member, its name and its range.
template <typename Record, typename Fields>
void line_members(Record& e, Fields& f) {
  f.integer("epoch", e.epoch, {1, 1e6});
  f.integer("steps", e.steps);
  f.integer("images", e.images, {0, most_images});
  step_members(e.settings, f);
  f.optional("diverged", e.diverged);
  if (!e.diverged) {
    f.number("train_loss", e.train_loss, {0});
    f.group("curve", [&](auto& g) {
      g.integer("every", e.curve_every);
      g.numbers("loss", e.curve, {0});
    });
    f.number("train_error_percent", e.train_error_percent, {0, 100});
    f.nullable("test_loss", e.test.loss, {0});
    f.number("test_error_percent", e.test.error_percent, {0, 100});
    f.group("decision", [&](auto& g) {
      g.flag("slow", e.decision.slow);
      g.text("action", e.decision.action);
      g.text("reason", e.decision.reason);
    });
    layer_list(e.layers, f);
  }
  f.group("time", [&](auto& g) { time_members(e, g); });
}

/// The first epoch that meets the target; null: none, or one that is behind the run.
const EpochRecord* meets_target(const StopRules& rules, const std::vector<EpochRecord>& epochs) {
  if (!rules.target_error) return nullptr;
  const auto first = std::find_if(epochs.begin(), epochs.end(), [&](const EpochRecord& e) {
    return e.test.error_percent <= *rules.target_error;
  });
  return first != epochs.end() && first->epoch > rules.from ? &*first : nullptr;
}

}  // namespace

bool better(const TestResult& a, const TestResult& b) {
  const auto loss = [](const TestResult& r) {
    return r.loss && std::isfinite(*r.loss) ? *r.loss : INFINITY;
  };
  return a.error_percent < b.error_percent ||
         (a.error_percent == b.error_percent && loss(a) < loss(b));
}

nlohmann::ordered_json to_json(const EpochRecord& epoch) {
  io::JsonWriter writer;
  line_members(epoch, writer);
  return writer.out;
}

EpochRecord epoch_from_json(const json& line) {
  if (!line.is_object()) throw std::invalid_argument("expected an object, found damaged text");
  EpochRecord e;
  io::JsonFields fields(line, "", io::JsonFields::Kind::record);
  line_members(e, fields);
  fields.require({"epoch"});
  fields.require({"time"}, "an object");
  io::JsonFields(line.at("time"), "time", io::JsonFields::Kind::record).require({"train_seconds"});
  if (e.diverged) return e;
  fields.require(
      {"learning_rate", "batch", "train_loss", "train_error_percent", "test_error_percent"});
  fields.require({"layers"}, "a list");
  return e;
}

std::string stop_reason(const StopRules& rules, const std::vector<EpochRecord>& epochs) {
  if (const EpochRecord* met = meets_target(rules, epochs))
    return fmt::format("test error {:.2f} % of epoch {} is within the target of {} %",
                       met->test.error_percent, met->epoch, base::number_text(*rules.target_error));
  if (rules.patience == 0 || epochs.empty()) return "";
  const EpochRecord* best = &epochs.front();
  for (const EpochRecord& e : epochs)
    if (better(e.test, best->test)) best = &e;
  const int64_t waited = epochs.back().epoch - std::max(best->epoch, rules.from);
  if (waited < rules.patience) return "";
  return fmt::format("no epoch better than epoch {} for {}, the patience is {}", best->epoch,
                     waited, rules.patience);
}

}  // namespace orthobatch::run
