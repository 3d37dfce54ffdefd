#include "kernels/cpu_passes.h"

#include <ATen/Dispatch.h>

namespace orthobatch::kernels {
namespace {

class CpuPasses : public Passes {
 public:
  Moments moments(const at::Tensor& x, int64_t block) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::moments",
                                      [&] { return cpu_moments<scalar_t>(x, block); });
  }

  at::Tensor transform(const at::Tensor& x, const BlockMatrix& P, const Vector& center,
                       const Vector& offset, Sums sums) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::transform", [&] {
      return sums == Sums::in_double ? cpu_transform<scalar_t, double>(x, P, center, offset)
                                     : cpu_transform<scalar_t, scalar_t>(x, P, center, offset);
    });
  }

  Products products(const at::Tensor& g, const at::Tensor& x, const Vector& center, int64_t block,
                    Sums sums) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::products", [&] {
      return sums == Sums::in_double ? cpu_products<scalar_t, double>(g, x, center, block)
                                     : cpu_products<scalar_t, scalar_t>(g, x, center, block);
    });
  }

  at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x, const BlockMatrix& P,
                            const BlockMatrix& Q, const Vector& center, const Vector& offset,
                            Sums sums) const override {
    return AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "orthobatch::input_gradient", [&] {
      return sums == Sums::in_double
                 ? cpu_input_gradient<scalar_t, double>(g, x, P, Q, center, offset)
                 : cpu_input_gradient<scalar_t, scalar_t>(g, x, P, Q, center, offset);
    });
  }
};

}  // namespace

const Passes& cpu_passes() {
  static const CpuPasses passes;
  return passes;
}

}  // namespace orthobatch::kernels
