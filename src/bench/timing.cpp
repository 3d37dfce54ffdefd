#include "bench/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace orthobatch::bench {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Times::median() const {
  if (each.empty()) return 0;
  std::vector<double> sorted = each;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Times::best() const {
  return each.empty() ? 0 : *std::min_element(each.begin(), each.end());
}

double geometric_mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return std::exp(sum / static_cast<double>(values.size()));
}

double fitted_exponent(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += std::log(x[i]) / n;
    mean_y += std::log(y[i]) / n;
  }
  double xx = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double dx = std::log(x[i]) - mean_x;
    xx += dx * dx;
    xy += dx * (std::log(y[i]) - mean_y);
  }
  return xy / xx;
}

void interleave(const std::vector<std::function<void(bool counted)>>& work, const Session& session,
                int64_t repeats, bool warm_up, const std::string& what) {
  const int64_t rounds = repeats + (warm_up ? 1 : 0);
  for (int64_t round = 0; round < rounds; ++round) {
    session.progress(what, round, rounds);
    for (const auto& run : work) {
      session.check();
      run(!warm_up || round > 0);
    }
  }
}

}  // namespace orthobatch::bench
