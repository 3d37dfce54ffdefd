#pragma once
// The passes on the CPU, a file each, by the type of the data. Each thread walks its range of
// tiles once; products run as GEMMs on tiles that stay in cache, and straight from and to the
// tensors where no centring is asked for; what is summed over samples is summed across tiles in
// double.

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/linalg.h"
#include "kernels/loops.h"
#include "kernels/passes.h"
#include "kernels/tiles.h"

namespace orthobatch::kernels {

namespace linalg = core::linalg;

template <typename T>
Statistics cpu_moments(const at::Tensor& x, int64_t block);

// S is the type of the products and their sums: T, or double for float data whose terms cancel.
// That is rare, so plain loops convert.

template <typename T, typename S>
at::Tensor cpu_transform(const at::Tensor& x, const AffineMap& map);

template <typename T, typename S>
GradientSums cpu_products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                          int64_t block);

template <typename T, typename S>
at::Tensor cpu_input_gradient(const at::Tensor& g, const at::Tensor& x, const GradientMap& map);

template <typename T, typename S>
void cpu_add_statistics_gradient(at::Tensor& dx, const at::Tensor& x, const GradientMap& map);

template <typename T>
Vector cpu_channel_sums(const at::Tensor& g);

template <typename T>
Vector cpu_dots(const at::Tensor& x, const Vector& v, int64_t groups);
template <typename T>
Vector cpu_weighted_sums(const at::Tensor& x, const Vector& w, int64_t groups);

inline bool all_zero(const Vector& v) {
  return std::all_of(v.begin(), v.end(), [](double d) { return d == 0; });
}

/// out = (in − center) · factor over a run of values, as the loops take them.
template <typename T, typename S>
void center_run(const T* in, int64_t count, int64_t period, const S* center, S factor, S* out) {
  if constexpr (std::is_same_v<T, S>) {
    loops<T>().center(in, count, period, center, factor, out);
  } else {
    for (int64_t first = 0; first < count; first += period)
      for (int64_t c = 0, width = std::min(period, count - first); c < width; ++c)
        out[first + c] = (static_cast<S>(in[first + c]) - center[c]) * factor;
  }
}

/// A tile in memory, as an operand of gemm: the tensor's own or a packed copy.
template <typename T>
struct Operand {
  T* data;
  int64_t stride;

  Operand from_channel(const Layout& layout, int64_t channel) const {
    return {data + channel * (layout.sample_major ? 1 : stride), stride};
  }
};

/// The packed copy of a tile where there is one, else the tile itself.
template <typename T, typename S>
Operand<const S> tile_operand(const T* data, const std::vector<S>& packed, const Layout& layout,
                              const Tile& tile) {
  if constexpr (std::is_same_v<T, S>)
    if (packed.empty()) return {data + tile.offset, tile.stride};
  return {packed.data(), packed_stride(layout, tile)};
}

/// Where a tile's result is summed: in the tensor itself, or in a packed copy of type S that is
/// then rounded into it, numbers beyond T's range to its largest.
template <typename T, typename S>
class TileResult {
 public:
  TileResult(T* out, const Layout& layout, const Tiling& tiling)
      : out_(out), layout_(layout), packed_(converts ? tiling.max_values() : 0) {}

  Operand<S> operand(const Tile& tile) {
    if constexpr (converts)
      return {packed_.data(), packed_stride(layout_, tile)};
    else
      return {out_ + tile.offset, tile.stride};
  }

  /// Where a run of the tile starts.
  S* start(const Run& run) {
    if constexpr (converts)
      return packed_.data() + run.packed;
    else
      return out_ + run.at;
  }

  void store(const Runs& runs, const Tile& tile) {
    if constexpr (converts)
      runs.for_each(tile, [&](const Run& run) {
        constexpr S largest = std::numeric_limits<T>::max();
        for (int64_t k = 0; k < run.count; ++k)
          out_[run.at + k] = static_cast<T>(std::clamp(packed_[run.packed + k], -largest, largest));
      });
  }

 private:
  static constexpr bool converts = !std::is_same_v<T, S>;
  T* out_;
  Layout layout_;
  std::vector<S> packed_;
};

/// out += op(M) in over the samples of a tile, M block-diagonal with its values in T.
template <typename T>
void add_product(const Layout& layout, linalg::Op op, const BlockMatrix& shape,
                 const std::vector<T>& m, int64_t samples, Operand<const T> in, Operand<T> out) {
  using linalg::Op;
  for (int64_t b = 0; b < shape.count(); ++b) {
    const int64_t width = shape.width(b);
    const T* block = m.data() + (shape.data(b) - shape.data(0));
    const Operand<const T> from = in.from_channel(layout, shape.offset(b));
    const Operand<T> to = out.from_channel(layout, shape.offset(b));
    if (layout.sample_major)  // rows are samples: out += in · op(M)ᵀ
      linalg::gemm(Op::none, op == Op::none ? Op::transpose : Op::none, samples, width, width, T(1),
                   from.data, from.stride, block, width, T(1), to.data, to.stride);
    else
      linalg::gemm(op, Op::none, width, samples, width, T(1), block, width, from.data, from.stride,
                   T(1), to.data, to.stride);
  }
}

}  // namespace orthobatch::kernels
