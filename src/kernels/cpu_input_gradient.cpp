#include <ATen/ops/empty_like.h>

#include <cmath>

#include "kernels/cpu_passes.h"
#include "kernels/loops.h"

namespace orthobatch::kernels {
namespace {

/// A power of two s such that Q·s and (X − center)/s are both of moderate size where Q·X is: Q goes
/// with 1/σ², which leaves float's range long before 1/σ does. 1 where Q itself is moderate.
double balance(const BlockMatrix& Q) {
  double largest = 0;
  for (double q : Q.values()) largest = std::max(largest, std::abs(q));
  if (!(largest > 0) || std::isinf(largest)) return 1.0;
  const double exponent = std::log2(largest);
  return std::abs(exponent) < 60 ? 1.0 : std::exp2(std::round(-0.5 * exponent));
}

}  // namespace

template <typename T>
at::Tensor cpu_input_gradient(const at::Tensor& g, const at::Tensor& x, const BlockMatrix& P,
                              const BlockMatrix& Q, const Vector& center, const Vector& offset) {
  const Layout layout = layout_of(g);
  const Tiling tiling(layout, sizeof(T));
  const Runs runs(layout);
  at::Tensor dx = at::empty_like(g);
  const T* grad = g.data_ptr<T>();
  const T* data = Q.empty() ? grad : x.data_ptr<T>();
  T* out = dx.data_ptr<T>();

  const double scale = balance(Q);
  BlockMatrix balanced = Q;
  balanced *= scale;
  const T unscale = static_cast<T>(1.0 / scale);
  const std::vector<T> p(P.values().begin(), P.values().end());
  const std::vector<T> q(balanced.values().begin(), balanced.values().end());
  const bool p_diagonal = P.block() == 1, q_diagonal = !Q.empty() && Q.block() == 1;
  const bool q_dense = !Q.empty() && !q_diagonal;
  const bool packs = q_dense && (scale != 1 || !all_zero(center));
  const Vector none(layout.channels);
  const auto mu = runs.constants<T>(center), constant = runs.constants<T>(offset);
  const auto p_run = runs.constants<T>(p_diagonal ? P.values() : none);
  const auto q_run = runs.constants<T>(q_diagonal ? balanced.values() : none);

  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<T> packed(packs ? tiling.max_values() : 0);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      // The constant and the diagonal parts first, then the products on top of them.
      runs.for_each(tile, [&](int64_t at, int64_t to, int64_t count, int64_t c) {
        if (p_diagonal || q_diagonal)
          loops<T>().gradient(grad + at, data + at, count, runs.period(), &p_run[c], &q_run[c],
                              &mu[c], unscale, &constant[c], out + at);
        else
          loops<T>().fill(count, runs.period(), &constant[c], out + at);
        if (packs) loops<T>().center(data + at, count, runs.period(), &mu[c], unscale, &packed[to]);
      });
      const Operand<T> to = {out + tile.offset, tile.stride};
      if (!p_diagonal)
        add_product(layout, linalg::Op::transpose, P, p, tile.samples,
                    {grad + tile.offset, tile.stride}, to);
      if (q_dense)
        add_product(layout, linalg::Op::none, Q, q, tile.samples,
                    packs ? Operand<const T>{packed.data(), packed_stride(layout, tile)}
                          : Operand<const T>{data + tile.offset, tile.stride},
                    to);
    }
  });
  return dx;
}

template at::Tensor cpu_input_gradient<float>(const at::Tensor&, const at::Tensor&,
                                              const BlockMatrix&, const BlockMatrix&, const Vector&,
                                              const Vector&);
template at::Tensor cpu_input_gradient<double>(const at::Tensor&, const at::Tensor&,
                                               const BlockMatrix&, const BlockMatrix&,
                                               const Vector&, const Vector&);

}  // namespace orthobatch::kernels
