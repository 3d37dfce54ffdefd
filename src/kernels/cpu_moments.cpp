// Mean and covariance. Always in double: an error of the covariance is multiplied by its condition
// number on the way to the output. The two triangles are equal, so one is computed: in double that
// costs what one float product of the whole would. By hand: oneDNN multiplies no doubles, and
// BLAS's dsyrk would want the samples as doubles, shifted, in memory first; here that is part of
// packing.

#include <algorithm>

#include "kernels/cpu_passes.h"
#include "kernels/loops.h"
#include "kernels/tiles.h"

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

template <typename T>
void sum_sample_major(const T* x, const std::vector<T>& shift, const Tiling& tiling, int64_t begin,
                      int64_t end, MomentSums& out) {
  const CovarianceLoops& multiply = covariance_loops();
  const int64_t lanes = multiply.lanes;
  BlockMatrix& squares = out.squares;
  const auto panels_of = [&](int64_t width) { return (width + lanes - 1) / lanes; };
  const int64_t widest = panels_of(squares.block());
  // Whole panels, so that the products need no edges.
  std::vector<Vector> padded;
  for (int64_t b = 0; b < squares.count(); ++b) {
    const int64_t rows = panels_of(squares.width(b)) * lanes;
    padded.emplace_back(rows * rows);
  }
  Vector panels(widest * panel_stride(tiling.max_samples(), lanes));
  for (int64_t t = begin; t < end; ++t) {
    const Tile tile = tiling[t];
    for (int64_t b = 0; b < squares.count(); ++b) {
      const int64_t first = squares.offset(b), width = squares.width(b);
      loops<T>().pack_panels(x + tile.offset + first, tile.samples, tile.stride, width,
                             shift.data() + first, panels.data(), out.sum.data() + first);
      multiply.multiply_panels(panels.data(), tile.samples, panels_of(width), padded[b].data());
    }
  }
  for (int64_t b = 0; b < squares.count(); ++b) {
    const int64_t width = squares.width(b), rows = panels_of(width) * lanes;
    for (int64_t i = 0; i < width; ++i)
      std::copy_n(padded[b].data() + i * rows, i + 1, squares.data(b) + i * width);
  }
}

template <typename T>
void sum_channel_major(const T* x, const std::vector<T>& shift, const Tiling& tiling, int64_t begin,
                       int64_t end, MomentSums& out) {
  const CovarianceLoops& multiply = covariance_loops();
  const int64_t n = out.squares.size();
  const auto whole = [&](int64_t count) {
    return (count + multiply.lanes - 1) / multiply.lanes * multiply.lanes;
  };
  // Pieces of several images side by side, where one alone is too short to multiply well.
  const int64_t capacity = std::max<int64_t>(256, whole(tiling.max_samples()));
  const int64_t stride = capacity + 8;
  Vector rows(n * stride);
  int64_t used = 0;
  const auto flush = [&] {
    for (int64_t b = 0; b < out.squares.count(); ++b)
      multiply.multiply_rows(rows.data() + out.squares.offset(b) * stride, used, stride,
                             out.squares.width(b), out.squares.data(b));
    used = 0;
  };
  for (int64_t t = begin; t < end; ++t) {
    const Tile tile = tiling[t];
    if (used + whole(tile.samples) > capacity) flush();
    for (int64_t c = 0; c < n; ++c)
      out.sum[c] += loops<T>().pack_row(x + tile.offset + c * tile.stride, tile.samples, shift[c],
                                        rows.data() + c * stride + used);
    used += whole(tile.samples);
  }
  flush();
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
  const std::vector<T> base(shift.begin(), shift.end());

  std::vector<MomentSums> parts(tiling.ranges(), {Vector(n), BlockMatrix(n, block)});
  tiling.for_ranges([&](int64_t r, int64_t begin, int64_t end) {
    if (block == 1)
      sum_diagonal(data, layout, shift, tiling, begin, end, parts[r]);
    else if (layout.sample_major)
      sum_sample_major(data, base, tiling, begin, end, parts[r]);
    else
      sum_channel_major(data, base, tiling, begin, end, parts[r]);
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
