#include <ATen/ops/empty_like.h>

#include "kernels/cpu_passes.h"

namespace orthobatch::kernels {
namespace {

template <typename T>
void transform_diagonal(const T* in, const Layout& layout, const BlockMatrix& P,
                        const Vector& center, const Vector& offset, T* out) {
  const Tiling tiling(layout, sizeof(T));
  const Runs runs(layout);
  const auto p = runs.constants<T>(P.values()), mu = runs.constants<T>(center),
             q = runs.constants<T>(offset);
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      runs.for_each(tiling[t], [&](int64_t at, int64_t, int64_t count, int64_t c) {
        loops<T>().transform(in + at, count, runs.period(), &p[c], &mu[c], &q[c], out + at);
      });
  });
}

template <typename T, typename S>
void transform_dense(const T* in, const Layout& layout, const BlockMatrix& P, const Vector& center,
                     const Vector& offset, T* out) {
  constexpr bool converts = !std::is_same_v<T, S>;
  const Tiling tiling(layout, sizeof(S));
  const Runs runs(layout);
  const std::vector<S> p(P.values().begin(), P.values().end());
  const auto mu = runs.constants<S>(center), q = runs.constants<S>(offset);
  const bool packs = converts || !all_zero(center);
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<S> packed(packs ? tiling.max_values() : 0);
    TileResult<T, S> result(out, layout, tiling);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      const Operand<S> to = result.operand(tile);
      runs.for_each(tile, [&](int64_t at, int64_t packed_at, int64_t count, int64_t c) {
        if (packs) center_run(in + at, count, runs.period(), &mu[c], S(1), &packed[packed_at]);
        loops<S>().fill(count, runs.period(), &q[c], result.run(at, packed_at));
      });
      add_product(layout, linalg::Op::none, P, p, tile.samples,
                  tile_operand(in, packed, layout, tile), to);
      result.store(runs, tile);
    }
  });
}

}  // namespace

template <typename T, typename S>
at::Tensor cpu_transform(const at::Tensor& x, const BlockMatrix& P, const Vector& center,
                         const Vector& offset) {
  const Layout layout = layout_of(x);
  at::Tensor z = at::empty_like(x);
  const T* in = x.data_ptr<T>();
  T* out = z.data_ptr<T>();
  if (P.block() == 1 && std::is_same_v<T, S>)
    transform_diagonal(in, layout, P, center, offset, out);
  else
    transform_dense<T, S>(in, layout, P, center, offset, out);
  return z;
}

template at::Tensor cpu_transform<float, float>(const at::Tensor&, const BlockMatrix&,
                                                const Vector&, const Vector&);
template at::Tensor cpu_transform<float, double>(const at::Tensor&, const BlockMatrix&,
                                                 const Vector&, const Vector&);
template at::Tensor cpu_transform<double, double>(const at::Tensor&, const BlockMatrix&,
                                                  const Vector&, const Vector&);

}  // namespace orthobatch::kernels
