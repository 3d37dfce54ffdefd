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

Moments moments(const at::Tensor& x, int64_t block) {
  return x.is_cpu() ? cpu::moments(x, block) : aten::moments(x, block);
}

at::Tensor transform(const at::Tensor& x, const BlockMatrix& P, const Vector& center,
                     const Vector& offset) {
  return x.is_cpu() ? cpu::transform(x, P, center, offset) : aten::transform(x, P, center, offset);
}

Products products(const at::Tensor& g, const at::Tensor& x, const Vector& center, int64_t block) {
  return x.is_cpu() ? cpu::products(g, x, center, block) : aten::products(g, x, center, block);
}

at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x, const BlockMatrix& P,
                          const BlockMatrix& Q, const Vector& center, const Vector& offset) {
  return g.is_cpu() ? cpu::input_gradient(g, x, P, Q, center, offset)
                    : aten::input_gradient(g, x, P, Q, center, offset);
}

}  // namespace orthobatch::kernels
