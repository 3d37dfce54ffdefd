#include <ATen/ops/empty_like.h>

#include "kernels/cpu_passes.h"
#include "kernels/panels.h"

namespace orthobatch::kernels {
namespace {

template <typename T>
void transform_diagonal(const T* in, const Layout& layout, const AffineMap& map, T* out) {
  const Tiling tiling(layout, sizeof(T));
  const Runs runs(layout);
  const auto p = runs.constants<T>(map.P.values()), mu = runs.constants<T>(map.center),
             q = runs.constants<T>(map.offset);
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      runs.for_each(tiling[t], [&](const Run& run) {
        const int64_t c = run.channel;
        loops<T>().transform(in + run.at, run.count, runs.period(), &p[c], &mu[c], &q[c],
                             out + run.at);
      });
  });
}

template <typename T, typename S>
void transform_dense(const T* in, const Layout& layout, const AffineMap& map, T* out) {
  constexpr bool converts = !std::is_same_v<T, S>;
  const Tiling tiling(layout, sizeof(S));
  const Runs runs(layout);
  const std::vector<S> p(map.P.values().begin(), map.P.values().end());
  const auto mu = runs.constants<S>(map.center), q = runs.constants<S>(map.offset);
  const bool packs = converts || !all_zero(map.center);
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<S> packed(packs ? tiling.max_values() : 0);
    TileResult<T, S> result(out, layout, tiling);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      const Operand<S> to = result.operand(tile);
      runs.for_each(tile, [&](const Run& run) {
        const S* mean = &mu[run.channel];
        if (packs)
          center_run(in + run.at, run.count, runs.period(), mean, S(1), &packed[run.packed]);
        loops<S>().fill(run.count, runs.period(), &q[run.channel], result.start(run));
      });
      add_product(layout, linalg::Op::none, map.P, p, tile.samples,
                  tile_operand(in, packed, layout, tile), to);
      result.store(runs, tile);
    }
  });
}

}  // namespace

template <typename T, typename S>
at::Tensor cpu_transform(const at::Tensor& x, const AffineMap& map) {
  const Layout layout = layout_of(x);
  at::Tensor z = at::empty_like(x);
  const T* in = x.data_ptr<T>();
  T* out = z.data_ptr<T>();
  if (map.P.block() == 1 && std::is_same_v<T, S>)
    transform_diagonal(in, layout, map, out);
  else if (fits_panels(map.P.block()) && std::is_same_v<T, S>)
    apply_panels<T>(layout, {{in, &map.P, false, &map.center}}, map.offset, out);
  else
    transform_dense<T, S>(in, layout, map, out);
  return z;
}

template at::Tensor cpu_transform<float, float>(const at::Tensor&, const AffineMap&);
template at::Tensor cpu_transform<float, double>(const at::Tensor&, const AffineMap&);
template at::Tensor cpu_transform<double, double>(const at::Tensor&, const AffineMap&);

}  // namespace orthobatch::kernels
