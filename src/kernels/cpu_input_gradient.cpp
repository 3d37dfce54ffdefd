#include <ATen/ops/empty_like.h>

#include <cmath>

#include "kernels/cpu_passes.h"

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

template <typename T, typename S>
at::Tensor cpu_input_gradient(const at::Tensor& g, const at::Tensor& x, const BlockMatrix& P,
                              const BlockMatrix& Q, const Vector& center, const Vector& offset) {
  constexpr bool converts = !std::is_same_v<T, S>;
  const Layout layout = layout_of(g);
  const Tiling tiling(layout, sizeof(S));
  const Runs runs(layout);
  at::Tensor dx = at::empty_like(g);
  const T* grad = g.data_ptr<T>();
  const T* data = Q.empty() ? grad : x.data_ptr<T>();

  const double scale = balance(Q);
  BlockMatrix balanced = Q;
  balanced *= scale;
  const S unscale = static_cast<S>(1.0 / scale);
  const std::vector<S> p(P.values().begin(), P.values().end());
  const std::vector<S> q(balanced.values().begin(), balanced.values().end());
  // Diagonal parts have a loop of their own where nothing is converted.
  const bool p_diagonal = !converts && P.block() == 1,
             q_diagonal = !converts && !Q.empty() && Q.block() == 1;
  const bool q_dense = !Q.empty() && !q_diagonal;
  const bool packs = q_dense && (converts || scale != 1 || !all_zero(center));
  const Vector none(layout.channels);
  const auto mu = runs.constants<S>(center), constant = runs.constants<S>(offset),
             zero = runs.constants<S>(none);
  const auto p_run = runs.constants<S>(p_diagonal ? P.values() : none);
  const auto q_run = runs.constants<S>(q_diagonal ? balanced.values() : none);

  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<S> packed(packs ? tiling.max_values() : 0),
        packed_grad(converts ? tiling.max_values() : 0);
    TileResult<T, S> result(dx.data_ptr<T>(), layout, tiling);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      // The constant and the diagonal parts first, then the products on top of them.
      runs.for_each(tile, [&](int64_t at, int64_t packed_at, int64_t count, int64_t c) {
        S* out = result.run(at, packed_at);
        const int64_t period = runs.period();
        if constexpr (converts)
          center_run(grad + at, count, period, &zero[c], S(1), &packed_grad[packed_at]);
        else if (p_diagonal || q_diagonal)
          loops<T>().gradient(grad + at, data + at, count, period, &p_run[c], &q_run[c], &mu[c],
                              unscale, &constant[c], out);
        if (!p_diagonal && !q_diagonal) loops<S>().fill(count, period, &constant[c], out);
        if (packs) center_run(data + at, count, period, &mu[c], unscale, &packed[packed_at]);
      });
      const Operand<S> to = result.operand(tile);
      if (!p_diagonal)
        add_product(layout, linalg::Op::transpose, P, p, tile.samples,
                    tile_operand(grad, packed_grad, layout, tile), to);
      if (q_dense)
        add_product(layout, linalg::Op::none, Q, q, tile.samples,
                    tile_operand(data, packed, layout, tile), to);
      result.store(runs, tile);
    }
  });
  return dx;
}

template at::Tensor cpu_input_gradient<float, float>(const at::Tensor&, const at::Tensor&,
                                                     const BlockMatrix&, const BlockMatrix&,
                                                     const Vector&, const Vector&);
template at::Tensor cpu_input_gradient<float, double>(const at::Tensor&, const at::Tensor&,
                                                      const BlockMatrix&, const BlockMatrix&,
                                                      const Vector&, const Vector&);
template at::Tensor cpu_input_gradient<double, double>(const at::Tensor&, const at::Tensor&,
                                                       const BlockMatrix&, const BlockMatrix&,
                                                       const Vector&, const Vector&);

}  // namespace orthobatch::kernels
