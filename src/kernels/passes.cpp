#include "kernels/passes.h"

#include <ATen/ATen.h>

namespace orthobatch::kernels {

at::Tensor dense_layout(const at::Tensor& x) {
  if (x.is_contiguous() || x.movedim(1, -1).is_contiguous()) return x;
  return x.contiguous(x.suggest_memory_format());
}

at::Tensor same_layout(const at::Tensor& g, const at::Tensor& x) {
  if (g.strides() == x.strides()) return g;
  return at::empty_like(x).copy_(g);
}

Vector center_of(const Vector& mean, at::ScalarType type) {
  Vector out = mean;
  if (type == at::kFloat)
    for (double& m : out) m = static_cast<float>(m);
  return out;
}

const Passes& passes_for(const at::Tensor& x) { return x.is_cpu() ? cpu_passes() : aten_passes(); }

}  // namespace orthobatch::kernels
