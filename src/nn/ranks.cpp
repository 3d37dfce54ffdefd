#include "nn/ranks.h"

#include <algorithm>

#include "kernels/convert.h"

namespace orthobatch::nn {
namespace {

using core::Vector;

void append(Vector& packed, const Vector& part) {
  packed.insert(packed.end(), part.begin(), part.end());
}

/// Takes the next values.
const double* take(const double* from, Vector& part) {
  std::copy_n(from, part.size(), part.begin());
  return from + part.size();
}

/// One half of symmetric blocks, row by row.
void append_lower(Vector& packed, const core::BlockMatrix& symmetric) {
  for (int64_t b = 0; b < symmetric.count(); ++b)
    for (int64_t i = 0, width = symmetric.width(b); i < width; ++i) {
      const double* row = symmetric.data(b) + i * width;
      packed.insert(packed.end(), row, row + i + 1);
    }
}
void take_lower(const double* from, core::BlockMatrix& symmetric) {
  for (int64_t b = 0; b < symmetric.count(); ++b)
    for (int64_t i = 0, width = symmetric.width(b); i < width; ++i)
      for (int64_t j = 0; j <= i; ++j, ++from) {
        double* block = symmetric.data(b);
        block[i * width + j] = block[j * width + i] = *from;
      }
}

}  // namespace

core::Statistics merge_ranks(const ProcessGroup& group, const core::Statistics& own) {
  Vector packed = {own.samples};
  append(packed, own.mean);
  append_lower(packed, own.covariance);
  std::vector<core::Statistics> parts;
  bool any = false;
  for (const at::Tensor& of_rank : group->gather(kernels::to_tensor(packed))) {
    core::Statistics part = own;  // for its sizes
    const double* values = of_rank.data_ptr<double>();
    part.samples = *values++;
    take_lower(take(values, part.mean), part.covariance);
    any = any || part.samples > 0;
    parts.push_back(std::move(part));
  }
  return any ? core::merge(parts) : own;
}

std::function<core::GradientSums()> sum_over_ranks(const ProcessGroup& group,
                                                   const core::GradientSums& own) {
  Vector packed = own.B.values();
  append(packed, own.sum);
  const at::Tensor total = kernels::to_tensor(packed);
  return [total, out = own, summed = group->begin_sum(total)]() mutable {
    summed();
    take(take(total.data_ptr<double>(), out.B.values()), out.sum);
    return out;
  };
}

}  // namespace orthobatch::nn
