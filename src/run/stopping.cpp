#include "run/stopping.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "base/text.h"

namespace orthobatch {
namespace {

constexpr int64_t most_epochs_to_wait = 100000;

void require_rule(bool holds, const char* name, const std::string& expected, double found) {
  if (!holds)
    throw std::invalid_argument(
        fmt::format("stop: {}: expected {}, found {}", name, expected, number_text(found)));
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

void check_rules(const StopRules& rules) {
  const double target = rules.target_error.value_or(0);
  require_rule(target >= 0 && target <= 100, "target_error", "0 to 100 percent", target);
  const std::string range = fmt::format("0 to {} epochs", most_epochs_to_wait);
  const auto counted = [](int64_t n) { return n >= 0 && n <= most_epochs_to_wait; };
  require_rule(counted(rules.patience), "patience", range, static_cast<double>(rules.patience));
  require_rule(counted(rules.from), "from", range, static_cast<double>(rules.from));
}

std::string stop_reason(const StopRules& rules, const std::vector<EpochRecord>& epochs) {
  if (const EpochRecord* met = meets_target(rules, epochs))
    return fmt::format("test error {:.2f} % of epoch {} is within the target of {} %",
                       met->test.error_percent, met->epoch, number_text(*rules.target_error));
  if (rules.patience == 0 || epochs.empty()) return "";
  const EpochRecord* best = &epochs.front();
  for (const EpochRecord& e : epochs)
    if (better(e.test, best->test)) best = &e;
  const int64_t waited = epochs.back().epoch - std::max(best->epoch, rules.from);
  if (waited < rules.patience) return "";
  return fmt::format("no epoch better than epoch {} for {}, the patience is {}", best->epoch,
                     waited, rules.patience);
}

}  // namespace orthobatch
