#include "kernels/cpu_passes.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include "kernels/convert.h"

namespace orthobatch::kernels {
namespace {

class CpuPasses : public Passes {
 public:
  Statistics moments(const at::Tensor& x, int64_t block, Sums, Along* along) const override {
    if (along) along->values = to_vectors(along->tensors);
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::moments",
                                      [&] { return cpu_moments<scalar_t>(x, block); });
  }

  at::Tensor transform(const at::Tensor& x, const AffineMap& map,
                       const Placed&) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::transform", [&] {
      return map.sums == Sums::in_double ? cpu_transform<scalar_t, double>(x, map)
                                         : cpu_transform<scalar_t, scalar_t>(x, map);
    });
  }

  GradientSums products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                        int64_t block, Sums sums, const Placed&) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::products", [&] {
      return sums == Sums::in_double ? cpu_products<scalar_t, double>(g, x, center, block)
                                     : cpu_products<scalar_t, scalar_t>(g, x, center, block);
    });
  }

  at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x,
                            const GradientMap& map,
                            const Placed&) const override {
    return AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "orthobatch::input_gradient", [&] {
      return map.sums == Sums::in_double ? cpu_input_gradient<scalar_t, double>(g, x, map)
                                         : cpu_input_gradient<scalar_t, scalar_t>(g, x, map);
    });
  }

  void add_statistics_gradient(at::Tensor& dx, const at::Tensor& x,
                               const GradientMap& map,
                            const Placed&) const override {
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::add_statistics_gradient", [&] {
      if (map.sums == Sums::in_double)
        cpu_add_statistics_gradient<scalar_t, double>(dx, x, map);
      else
        cpu_add_statistics_gradient<scalar_t, scalar_t>(dx, x, map);
    });
  }

  at::Tensor channel_sums(const at::Tensor& g) const override {
    return to_tensor(AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "orthobatch::channel_sums",
                                                [&] { return cpu_channel_sums<scalar_t>(g); }));
  }

  at::Tensor dots(const at::Tensor& x, const Vector& v, int64_t groups,
                  const at::Tensor&) const override {
    return to_tensor(AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::dots", [&] {
             return cpu_dots<scalar_t>(x, v, groups);
           })).view({-1, groups});
  }

  GradientSums weight_products(const at::Tensor& w, const at::Tensor& folded,
                               const at::Tensor& by_sample, int64_t block,
                               int64_t groups) const override {
    const Vector weights = to_vector(by_sample);
    return {products(w, folded, Vector(w.size(1)), block, Sums::in_type, {}).B,
            AT_DISPATCH_FLOATING_TYPES(w.scalar_type(), "orthobatch::weight_products", [&] {
              return cpu_weighted_sums<scalar_t>(w, weights, groups);
            })};
  }
};

}  // namespace

const Passes& cpu_passes() {
  static const CpuPasses passes;
  return passes;
}

}  // namespace orthobatch::kernels
