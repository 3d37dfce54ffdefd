#include <ATen/ops/empty_like.h>

#include "kernels/cpu_passes.h"
#include "kernels/panels.h"

namespace orthobatch::kernels {

template <typename T, typename S>
at::Tensor cpu_input_gradient(const at::Tensor& g, const at::Tensor& x, const GradientMap& map) {
  const BlockMatrix &P = map.P, &Q = map.Q;
  constexpr bool converts = !std::is_same_v<T, S>;
  const Layout layout = layout_of(g);
  const Tiling tiling(layout, sizeof(S));
  const Runs runs(layout);
  at::Tensor dx = at::empty_like(g);
  const T* grad = g.data_ptr<T>();
  const T* data = Q.empty() ? grad : x.data_ptr<T>();

  BlockMatrix balanced = Q;
  balanced *= map.scale;
  const S unscale = static_cast<S>(1.0 / map.scale);
  const Vector none(layout.channels);
  if (!converts && fits_panels(P.block()) && (Q.empty() || Q.block() == P.block())) {
    std::vector<PanelTerm<T>> terms = {{grad, &P, true, &none}};
    if (!Q.empty()) terms.push_back({data, &balanced, false, &map.center, static_cast<T>(unscale)});
    apply_panels<T>(layout, terms, map.offset, dx.data_ptr<T>());
    return dx;
  }
  const std::vector<S> p(P.values().begin(), P.values().end());
  const std::vector<S> q(balanced.values().begin(), balanced.values().end());
  // Diagonal parts have a loop of their own where nothing is converted.
  const bool p_diagonal = !converts && P.block() == 1,
             q_diagonal = !converts && !Q.empty() && Q.block() == 1;
  const bool q_dense = !Q.empty() && !q_diagonal;
  const bool packs = q_dense && (converts || map.scale != 1 || !all_zero(map.center));
  const auto mu = runs.constants<S>(map.center), constant = runs.constants<S>(map.offset),
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
      runs.for_each(tile, [&](const Run& run) {
        S* out = result.start(run);
        const int64_t period = runs.period(), count = run.count, c = run.channel;
        if constexpr (converts)
          center_run(grad + run.at, count, period, &zero[c], S(1), &packed_grad[run.packed]);
        else if (p_diagonal || q_diagonal)
          loops<T>().gradient(grad + run.at, data + run.at, count, period, &p_run[c], &q_run[c],
                              &mu[c], unscale, &constant[c], out);
        if (!p_diagonal && !q_diagonal) loops<S>().fill(count, period, &constant[c], out);
        if (packs) center_run(data + run.at, count, period, &mu[c], unscale, &packed[run.packed]);
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

template <typename T, typename S>
void cpu_add_statistics_gradient(at::Tensor& dx, const at::Tensor& x, const GradientMap& map) {
  constexpr bool converts = !std::is_same_v<T, S>;
  const Layout layout = layout_of(x);
  const Tiling tiling(layout, sizeof(S));
  const Runs runs(layout);
  const T* data = x.data_ptr<T>();
  T* sum = dx.data_ptr<T>();

  BlockMatrix balanced = map.Q;
  balanced *= map.scale;
  const S unscale = static_cast<S>(1.0 / map.scale);
  const std::vector<S> q(balanced.values().begin(), balanced.values().end());
  const bool diagonal = map.Q.block() == 1;
  const bool packs = !diagonal && (converts || map.scale != 1 || !all_zero(map.center));
  const Vector none(layout.channels);
  const auto mu = runs.constants<S>(map.center), constant = runs.constants<S>(map.offset),
             zero = runs.constants<S>(none);
  const auto q_run = runs.constants<S>(diagonal ? balanced.values() : none);

  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<S> packed(packs || converts ? tiling.max_values() : 0);
    TileResult<T, S> result(sum, layout, tiling);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      runs.for_each(tile, [&](const Run& run) {
        const int64_t period = runs.period(), count = run.count, c = run.channel;
        S* out = result.start(run);
        const T* in = data + run.at;
        if constexpr (converts) {
          S* wide = &packed[run.packed];
          center_run(sum + run.at, count, period, &zero[c], S(1), out);
          center_run(in, count, period, &zero[c], S(1), wide);
          loops<S>().accumulate(wide, count, period, &q_run[c], &mu[c], unscale, &constant[c], out);
        } else {
          loops<T>().accumulate(in, count, period, &q_run[c], &mu[c], unscale, &constant[c], out);
        }
        if (packs) center_run(in, count, period, &mu[c], unscale, &packed[run.packed]);
      });
      if (!diagonal)
        add_product(layout, linalg::Op::none, map.Q, q, tile.samples,
                    tile_operand(data, packed, layout, tile), result.operand(tile));
      result.store(runs, tile);
    }
  });
}

template at::Tensor cpu_input_gradient<float, float>(const at::Tensor&, const at::Tensor&,
                                                     const GradientMap&);
template at::Tensor cpu_input_gradient<float, double>(const at::Tensor&, const at::Tensor&,
                                                      const GradientMap&);
template at::Tensor cpu_input_gradient<double, double>(const at::Tensor&, const at::Tensor&,
                                                       const GradientMap&);

template void cpu_add_statistics_gradient<float, float>(at::Tensor&, const at::Tensor&,
                                                        const GradientMap&);
template void cpu_add_statistics_gradient<float, double>(at::Tensor&, const at::Tensor&,
                                                         const GradientMap&);
template void cpu_add_statistics_gradient<double, double>(at::Tensor&, const at::Tensor&,
                                                          const GradientMap&);

}  // namespace orthobatch::kernels
