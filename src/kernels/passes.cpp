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

core::Real real_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? core::Real::float64 : core::Real::float32;
}

const Passes& passes_for(const at::Tensor& x) { return x.is_cpu() ? cpu_passes() : aten_passes(); }

}  // namespace orthobatch::kernels
