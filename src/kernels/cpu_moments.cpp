// Mean and covariance. Always in double: an error of the covariance is multiplied by its condition
// number on the way to the output. The two triangles are equal, so one is computed: in double that
// costs what one float product of the whole would. By hand: oneDNN multiplies no doubles, and
// BLAS's dsyrk would want the samples as doubles, shifted, in memory first; here that is part of
// packing.

#include <algorithm>

#include "kernels/cpu_passes.h"
#include "kernels/loops.h"
#include "kernels/panels.h"

namespace orthobatch::kernels {
namespace {

/// A few samples spread over the batch give an estimate of the mean good enough to shift by. Taken
/// as the first sample plus a mean difference and rounded to T, it is the value itself for a
/// constant channel, whose variance then comes out as 0.
template <typename T>
Vector shift_estimate(const T* x, const Layout& layout) {
  const int64_t count = std::min<int64_t>(64, layout.samples()), n = layout.channels;
  const auto value = [&](int64_t sample, int64_t c) -> double {
    if (layout.sample_major) return x[sample * n + c];
    return x[(sample / layout.inner * n + c) * layout.inner + sample % layout.inner];
  };
  Vector shift(n);
  for (int64_t k = 0; k < count; ++k)
    for (int64_t c = 0; c < n; ++c)
      shift[c] += value(k * layout.samples() / count, c) - value(0, c);
  for (int64_t c = 0; c < n; ++c)
    shift[c] = static_cast<T>(value(0, c) + shift[c] / static_cast<double>(count));
  return shift;
}

/// Sums of (x − shift) and of its products over a range of tiles; of the products the lower
/// triangles alone.
struct MomentSums {
  Vector sum;
  BlockMatrix squares;
};

template <typename T>
void sum_diagonal(const T* x, const Layout& layout, const Vector& shift, const Tiling& tiling,
                  int64_t begin, int64_t end, MomentSums& out) {
  const Runs runs(layout);
  const std::vector<T> base = runs.constants<T>(shift);
  Vector sum(runs.size()), square(runs.size());
  for (int64_t t = begin; t < end; ++t)
    runs.for_each(tiling[t], [&](const Run& run) {
      const int64_t c = run.channel;
      loops<T>().moments(x + run.at, run.count, runs.period(), &base[c], &sum[c], &square[c]);
    });
  runs.add_sums(sum, out.sum.data());
  runs.add_sums(square, out.squares.data(0));
}

/// Lower triangles of blocks of any width, and the sums, over the tiles from begin to end.
template <typename T>
void sum_squares(const T* x, const Layout& layout, const Vector& shift, const Tiling& tiling,
                 int64_t begin, int64_t end, MomentSums& out) {
  const CovarianceLoops& loop = covariance_loops();
  const auto vectors = [&](int64_t n) { return (n + loop.lanes - 1) / loop.lanes; };
  BlockMatrix& squares = out.squares;
  if (!layout.sample_major) {
    const int64_t stride = panel_samples + 2 * loop.lanes;
    Vector rows(squares.block() * stride);
    for_panels(layout, tiling, begin, end, squares, [&](int64_t b, const Piece& piece) {
      const int64_t first = squares.offset(b), width = squares.width(b);
      loops<T>().pack_rows(x + piece.offset + first * piece.stride, piece.parts, piece.apart,
                           piece.samples, width, piece.stride, &shift[first], rows.data(), stride,
                           &out.sum[first]);
      loop.multiply_rows(rows.data(), vectors(piece.count()) * loop.lanes, stride, width,
                         squares.data(b));
    });
    return;
  }
  // Whole panels, so that the products need no edges.
  std::vector<Vector> padded;
  for (int64_t b = 0; b < squares.count(); ++b) {
    const int64_t rows = vectors(squares.width(b)) * loop.lanes;
    padded.emplace_back(rows * rows);
  }
  Vector panels(vectors(squares.block()) * panel_stride(tiling.max_samples(), loop.lanes));
  for (int64_t t = begin; t < end; ++t) {
    const Tile tile = tiling[t];
    for (int64_t b = 0; b < squares.count(); ++b) {
      const int64_t first = squares.offset(b), width = squares.width(b);
      loops<T>().pack_panels(x + tile.offset + first, tile.samples, tile.stride, width,
                             &shift[first], panels.data(), &out.sum[first]);
      loop.multiply_panels(panels.data(), tile.samples, vectors(width), padded[b].data());
    }
  }
  for (int64_t b = 0; b < squares.count(); ++b) {
    const int64_t width = squares.width(b), rows = vectors(width) * loop.lanes;
    for (int64_t i = 0; i < width; ++i)
      std::copy_n(padded[b].data() + i * rows, i + 1, squares.data(b) + i * width);
  }
}

/// Σ = S/M − (μ−shift)(μ−shift)ᵀ, the lower triangle mirrored.
void finish_covariance(BlockMatrix& cov, const Vector& excess, double m) {
  for (int64_t b = 0; b < cov.count(); ++b) {
    const int64_t width = cov.width(b), first = cov.offset(b);
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double& value = cov.data(b)[i * width + j];
        value = value / m - excess[first + i] * excess[first + j];
        if (i == j) value = value < 0 ? 0.0 : value;
        cov.data(b)[j * width + i] = value;
      }
  }
}

}  // namespace

template <typename T>
Statistics cpu_moments(const at::Tensor& x, int64_t block) {
  const Layout layout = layout_of(x);
  const Tiling tiling(layout, sizeof(double), block == 1 ? 2048 : layout.sample_major ? 128 : 256);
  const T* data = x.data_ptr<T>();
  const int64_t n = layout.channels;
  const Vector shift = shift_estimate(data, layout);

  std::vector<MomentSums> parts(tiling.ranges(), {Vector(n), BlockMatrix(n, block)});
  tiling.for_ranges([&](int64_t r, int64_t begin, int64_t end) {
    if (block == 1)
      sum_diagonal(data, layout, shift, tiling, begin, end, parts[r]);
    else
      sum_squares(data, layout, shift, tiling, begin, end, parts[r]);
  });
  Vector& excess = parts[0].sum;
  for (size_t r = 1; r < parts.size(); ++r) {
    for (int64_t c = 0; c < n; ++c) excess[c] += parts[r].sum[c];
    parts[0].squares += parts[r].squares;
  }
  const double m = static_cast<double>(layout.samples());
  Statistics out{m, Vector(n), std::move(parts[0].squares)};
  for (int64_t c = 0; c < n; ++c) {
    excess[c] /= m;
    out.mean[c] = shift[c] + excess[c];
  }
  finish_covariance(out.covariance, excess, m);
  return out;
}

template Statistics cpu_moments<float>(const at::Tensor&, int64_t);
template Statistics cpu_moments<double>(const at::Tensor&, int64_t);

}  // namespace orthobatch::kernels
