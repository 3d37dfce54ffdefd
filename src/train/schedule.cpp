#include "train/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace orthobatch::train {

Schedule::Schedule(const run::ScheduleRules& rules) : rules_(rules) {
  run::check_rules(rules);
  now_ = {rules.learning_rate, rules.momentum, rules.alpha_start, rules.batch};
}

void Schedule::restore(const State& state) {
  now_ = state.now;
  lowest_loss_ = state.lowest_loss;
  slow_count_ = state.slow_count;
}

std::string Schedule::slow_down() {
  const run::StepSettings before = now_;
  std::string action;
  const auto say = [&](const std::string& what, double from, double to) {
    if (from == to) return;
    action += fmt::format("{}{} {} -> {}", action.empty() ? "" : ", ", what,
                          base::number_text(from), base::number_text(to));
  };
  if (now_.batch < rules_.max_batch) {
    now_.batch = std::min(2 * now_.batch, rules_.max_batch);
    now_.learning_rate *= rules_.growing_factor;
  } else {
    now_.learning_rate =
        std::min(now_.learning_rate,
                 std::max(now_.learning_rate * rules_.final_factor, rules_.min_learning_rate));
    now_.momentum = std::min(now_.momentum, rules_.final_momentum);
  }
  say("batch", static_cast<double>(before.batch), static_cast<double>(now_.batch));
  say("learning rate", before.learning_rate, now_.learning_rate);
  say("momentum", before.momentum, now_.momentum);
  return action.empty() ? "none: the learning rate is at its minimum" : action;
}

run::Decision Schedule::finish_epoch(int64_t epoch, double loss) {
  run::Decision decision;
  decision.action = "none";
  if (!lowest_loss_) {
    decision.reason = fmt::format("training loss {:.5g}, the first", loss);
  } else {
    const double improvement = 1 - loss / *lowest_loss_;
    const bool enough = improvement >= rules_.slow_improvement;
    const bool late = rules_.slow_after > 0 && epoch > rules_.slow_after;
    slow_count_ = enough && !late ? 0 : slow_count_ + 1;
    decision.slow = slow_count_ >= rules_.slow_epochs;
    decision.reason =
        fmt::format("training loss {:.5g} is {:.2f} % {} {:.5g}, {} than {:g} %", loss,
                    100 * std::fabs(improvement), improvement >= 0 ? "below" : "above",
                    *lowest_loss_, enough ? "not less" : "less", 100 * rules_.slow_improvement);
    if (enough && late)
      decision.reason +=
          fmt::format("; after epoch {} every epoch counts as slow", rules_.slow_after);
    if (slow_count_ > 0 && rules_.slow_epochs > 1)
      decision.reason += fmt::format(" (epoch {} of {})", slow_count_, rules_.slow_epochs);
  }
  lowest_loss_ = lowest_loss_ ? std::min(*lowest_loss_, loss) : loss;
  if (decision.slow) {
    decision.action = slow_down();
    slow_count_ = 0;
  }
  now_.alpha = std::min(1 - (1 - now_.alpha) * rules_.alpha_decay, rules_.alpha_end);
  return decision;
}

}  // namespace orthobatch::train
