#include "core/entropy.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::core {

double renyi_entropy(const Vector& lambda, double q) {
  double total = 0, largest = 0;
  for (double l : lambda) {
    total += std::max(l, 0.0);
    largest = std::max(largest, l);
  }
  if (!(total > 0)) return 0.0;
  if (std::isinf(q)) return -std::log(largest / total);

  double sum = 0;
  for (double l : lambda) {
    if (l <= 0) continue;
    const double p = l / total;
    sum += q == 1 ? -p * std::log(p) : std::pow(p, q);
  }
  return q == 1 ? sum : std::log(sum) / (1 - q);
}

double effective_rank(const Vector& lambda, double q) { return std::exp(renyi_entropy(lambda, q)); }

}  // namespace orthobatch::core
