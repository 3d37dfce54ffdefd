#include "kernels/cpu_passes.h"

#include <ATen/Dispatch.h>

namespace orthobatch::kernels {
namespace {

class CpuPasses : public Passes {
 public:
  Statistics moments(const at::Tensor& x, int64_t block) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::moments",
                                      [&] { return cpu_moments<scalar_t>(x, block); });
  }

  at::Tensor transform(const at::Tensor& x, const AffineMap& map) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::transform", [&] {
      return map.sums == Sums::in_double ? cpu_transform<scalar_t, double>(x, map)
                                         : cpu_transform<scalar_t, scalar_t>(x, map);
    });
  }

  GradientSums products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                        int64_t block, Sums sums) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::products", [&] {
      return sums == Sums::in_double ? cpu_products<scalar_t, double>(g, x, center, block)
                                     : cpu_products<scalar_t, scalar_t>(g, x, center, block);
    });
  }

  at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x,
                            const GradientMap& map) const override {
    return AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "orthobatch::input_gradient", [&] {
      return map.sums == Sums::in_double ? cpu_input_gradient<scalar_t, double>(g, x, map)
                                         : cpu_input_gradient<scalar_t, scalar_t>(g, x, map);
    });
  }

  void add_statistics_gradient(at::Tensor& dx, const at::Tensor& x,
                               const GradientMap& map) const override {
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::add_statistics_gradient", [&] {
      if (map.sums == Sums::in_double)
        cpu_add_statistics_gradient<scalar_t, double>(dx, x, map);
      else
        cpu_add_statistics_gradient<scalar_t, scalar_t>(dx, x, map);
    });
  }

  Vector channel_sums(const at::Tensor& g) const override {
    return AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "orthobatch::channel_sums",
                                      [&] { return cpu_channel_sums<scalar_t>(g); });
  }

  Vector dots(const at::Tensor& x, const Vector& v, int64_t groups) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::dots",
                                      [&] { return cpu_dots<scalar_t>(x, v, groups); });
  }

  Vector weighted_sums(const at::Tensor& x, const Vector& w, int64_t groups) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::weighted_sums",
                                      [&] { return cpu_weighted_sums<scalar_t>(x, w, groups); });
  }
};

}  // namespace

const Passes& cpu_passes() {
  static const CpuPasses passes;
  return passes;
}

}  // namespace orthobatch::kernels
