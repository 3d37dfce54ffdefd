#include <ATen/ops/empty_like.h>

#include <type_traits>

#include "kernels/cpu_passes.h"
#include "kernels/loops.h"

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

template <typename T>
void transform_dense(const T* in, const Layout& layout, const BlockMatrix& P, const Vector& center,
                     const Vector& offset, T* out) {
  const Tiling tiling(layout, sizeof(T));
  const Runs runs(layout);
  const std::vector<T> p(P.values().begin(), P.values().end());
  const auto mu = runs.constants<T>(center), q = runs.constants<T>(offset);
  const bool centered = !all_zero(center);
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<T> packed(centered ? tiling.max_values() : 0);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      runs.for_each(tile, [&](int64_t at, int64_t to, int64_t count, int64_t c) {
        if (centered) loops<T>().center(in + at, count, runs.period(), &mu[c], T(1), &packed[to]);
        loops<T>().fill(count, runs.period(), &q[c], out + at);
      });
      const Operand<const T> from =
          centered ? Operand<const T>{packed.data(), packed_stride(layout, tile)}
                   : Operand<const T>{in + tile.offset, tile.stride};
      add_product(layout, linalg::Op::none, P, p, tile.samples, from,
                  {out + tile.offset, tile.stride});
    }
  });
}

/// Float data with its products summed in double: rare, so plain loops do.
void transform_in_double(const float* in, const Layout& layout, const BlockMatrix& P,
                         const Vector& center, const Vector& offset, float* out) {
  const Tiling tiling(layout, sizeof(double));
  const Runs runs(layout);
  const auto mu = runs.constants<double>(center), q = runs.constants<double>(offset);
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    Vector packed(tiling.max_values()), result(tiling.max_values());
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      runs.for_each(tile, [&](int64_t at, int64_t to, int64_t count, int64_t c) {
        for (int64_t k = 0; k < count; ++k) {
          const int64_t channel = c + k % runs.period();
          packed[to + k] = in[at + k] - mu[channel];
          result[to + k] = q[channel];
        }
      });
      const int64_t stride = packed_stride(layout, tile);
      add_product<double>(layout, linalg::Op::none, P, P.values(), tile.samples,
                          {packed.data(), stride}, {result.data(), stride});
      runs.for_each(tile, [&](int64_t at, int64_t to, int64_t count, int64_t) {
        for (int64_t k = 0; k < count; ++k) out[at + k] = static_cast<float>(result[to + k]);
      });
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
  if constexpr (!std::is_same_v<T, S>)
    transform_in_double(in, layout, P, center, offset, out);
  else if (P.block() == 1)
    transform_diagonal(in, layout, P, center, offset, out);
  else
    transform_dense(in, layout, P, center, offset, out);
  return z;
}

template at::Tensor cpu_transform<float, float>(const at::Tensor&, const BlockMatrix&,
                                                const Vector&, const Vector&);
template at::Tensor cpu_transform<float, double>(const at::Tensor&, const BlockMatrix&,
                                                 const Vector&, const Vector&);
template at::Tensor cpu_transform<double, double>(const at::Tensor&, const BlockMatrix&,
                                                  const Vector&, const Vector&);

}  // namespace orthobatch::kernels
