#include "run/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/text.h"

namespace orthobatch {
namespace {

constexpr double largest_rate = 1e30;  // a step of training is in float

void require(bool holds, const char* name, const char* expected, double found) {
  if (!holds)
    throw std::invalid_argument(
        fmt::format("schedule: {}: expected {}, found {}", name, expected, number_text(found)));
}

}  // namespace

void check_rules(const ScheduleRules& r) {
  const auto counted = [](int64_t n) { return n >= 2 && n <= largest_batch; };
  const auto share = [](double x) { return x > 0 && x <= 1; };
  const auto below_one = [](double x) { return x >= 0 && x < 1; };
  require(r.learning_rate > 0 && r.learning_rate <= largest_rate, "learning_rate",
          "a number above 0, at most 1e30", r.learning_rate);
  require(below_one(r.momentum), "momentum", "0 or more, below 1", r.momentum);
  require(r.weight_decay >= 0 && r.weight_decay <= largest_rate, "weight_decay", "0 to 1e30",
          r.weight_decay);
  require(counted(r.batch), "batch", "2 to 1000000000", static_cast<double>(r.batch));
  require(counted(r.max_batch), "max_batch", "2 to 1000000000", static_cast<double>(r.max_batch));
  require(below_one(r.slow_improvement), "slow_improvement", "0 or more, below 1",
          r.slow_improvement);
  require(r.slow_epochs >= 1, "slow_epochs", "1 or more", static_cast<double>(r.slow_epochs));
  require(share(r.growing_factor), "growing_factor", "above 0, at most 1", r.growing_factor);
  require(share(r.final_factor), "final_factor", "above 0, at most 1", r.final_factor);
  require(below_one(r.final_momentum), "final_momentum", "0 or more, below 1", r.final_momentum);
  require(r.min_learning_rate >= 0 && r.min_learning_rate <= largest_rate, "min_learning_rate",
          "0 to 1e30", r.min_learning_rate);
  require(below_one(r.alpha_start), "alpha_start", "0 or more, below 1", r.alpha_start);
  require(share(r.alpha_decay), "alpha_decay", "above 0, at most 1", r.alpha_decay);
  require(r.alpha_end >= r.alpha_start && r.alpha_end < 1, "alpha_end",
          "alpha_start or more, below 1", r.alpha_end);
}

Schedule::Schedule(const ScheduleRules& rules) : rules_(rules) {
  check_rules(rules);
  now_ = {rules.learning_rate, rules.momentum, rules.alpha_start, rules.batch};
}

void Schedule::restore(const State& state) {
  now_ = state.now;
  lowest_loss_ = state.lowest_loss;
  slow_count_ = state.slow_count;
}

std::string Schedule::slow_down() {
  const StepSettings before = now_;
  std::string action;
  const auto say = [&](const std::string& what, double from, double to) {
    if (from == to) return;
    action += fmt::format("{}{} {} -> {}", action.empty() ? "" : ", ", what, number_text(from),
                          number_text(to));
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
  return action.empty() ? "none: the learning rate is at its least" : action;
}

Decision Schedule::finish_epoch(double loss) {
  Decision decision;
  decision.action = "none";
  if (!lowest_loss_) {
    decision.reason = fmt::format("training loss {:.5g}, the first", loss);
  } else {
    const double improvement = 1 - loss / *lowest_loss_;
    const bool enough = improvement >= rules_.slow_improvement;
    slow_count_ = enough ? 0 : slow_count_ + 1;
    decision.slow = slow_count_ >= rules_.slow_epochs;
    decision.reason =
        fmt::format("training loss {:.5g} is {:.2f} % {} {:.5g}, {} than {:g} %", loss,
                    100 * std::fabs(improvement), improvement >= 0 ? "below" : "above",
                    *lowest_loss_, enough ? "not less" : "less", 100 * rules_.slow_improvement);
    if (!enough && rules_.slow_epochs > 1)
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

}  // namespace orthobatch
