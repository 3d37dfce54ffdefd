#include "core/statistics.h"

#include <stdexcept>

namespace orthobatch::core {

// Chan, Golub & LeVeque: n Σ = n₁ Σ₁ + n₂ Σ₂ + (n₁ n₂ / n) δ δᵀ, δ = μ₂ − μ₁.
Statistics merge(const std::vector<Statistics>& parts) {
  Statistics all;
  for (const Statistics& part : parts) {
    if (part.samples == 0) continue;
    if (all.samples == 0) {
      all = part;
      continue;
    }
    const double n = all.samples + part.samples, share = part.samples / n;
    Vector delta = part.mean;
    for (size_t c = 0; c < delta.size(); ++c) {
      delta[c] -= all.mean[c];
      all.mean[c] += share * delta[c];
    }
    BlockMatrix& cov = all.covariance;
    for (int64_t b = 0; b < cov.count(); ++b) {
      const int64_t width = cov.width(b), first = cov.offset(b);
      for (int64_t i = 0; i < width; ++i)
        for (int64_t j = 0; j < width; ++j) {
          double& value = cov.data(b)[i * width + j];
          value += share * (part.covariance.data(b)[i * width + j] - value) +
                   share * (1 - share) * (delta[first + i] * delta[first + j]);
        }
    }
    all.samples = n;
  }
  if (all.samples == 0) throw std::invalid_argument("merge: expected at least one sample");
  return all;
}

void drop_unresolved(BlockMatrix& covariance, Real real) {
  const double least = least_deviation(real) * least_deviation(real);
  for (int64_t b = 0; b < covariance.count(); ++b) {
    const int64_t width = covariance.width(b);
    double* block = covariance.data(b);
    for (int64_t i = 0; i < width; ++i) {
      if (!(block[i * width + i] < least)) continue;
      for (int64_t j = 0; j < width; ++j) block[i * width + j] = block[j * width + i] = 0;
    }
  }
}

}  // namespace orthobatch::core
