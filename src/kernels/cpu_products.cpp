#include "kernels/cpu_passes.h"
#include "kernels/panels.h"

namespace orthobatch::kernels {
namespace {

using linalg::Op;

/// So many samples may be summed in S before the sum goes to double: fewer would cost, with many
/// channels, as much as the products.
constexpr int64_t flush_after = 256;

template <typename T>
void products_diagonal(const T* grad, const T* data, const Layout& layout, const Vector& center,
                       const Tiling& tiling, int64_t begin, int64_t end, GradientSums& out) {
  const Runs runs(layout);
  const std::vector<T> mu = runs.constants<T>(center);
  Vector sum(runs.size()), product(runs.size());
  for (int64_t t = begin; t < end; ++t)
    runs.for_each(tiling[t], [&](const Run& run) {
      const int64_t c = run.channel;
      loops<T>().products(grad + run.at, data + run.at, run.count, runs.period(), &mu[c], &sum[c],
                          &product[c]);
    });
  runs.add_sums(sum, out.sum.data());
  runs.add_sums(product, out.B.data(0));
}

template <typename T, typename S>
void products_dense(const T* grad, const T* data, const Layout& layout, const Vector& center,
                    const Tiling& tiling, int64_t begin, int64_t end, GradientSums& out) {
  const Runs runs(layout);
  const std::vector<S> mu = runs.constants<S>(center), none(mu.size());
  const bool converts = !std::is_same_v<T, S>, packs = converts || !all_zero(center);
  const Op left = layout.sample_major ? Op::transpose : Op::none;
  const Op right = layout.sample_major ? Op::none : Op::transpose;
  std::vector<S> packed(packs ? tiling.max_values() : 0),
      packed_grad(converts ? tiling.max_values() : 0), product(out.B.values().size());
  Vector sum(runs.size());
  int64_t pending = 0;  // samples summed in `product`
  for (int64_t t = begin; t < end; ++t) {
    const Tile tile = tiling[t];
    runs.for_each(tile, [&](const Run& run) {
      const int64_t count = run.count, period = runs.period(), c = run.channel;
      loops<T>().sum(grad + run.at, count, period, &sum[c]);
      if (packs) center_run(data + run.at, count, period, &mu[c], S(1), &packed[run.packed]);
      if (converts)
        center_run(grad + run.at, count, period, &none[c], S(1), &packed_grad[run.packed]);
    });
    const Operand<const S> g = tile_operand(grad, packed_grad, layout, tile),
                           x = tile_operand(data, packed, layout, tile);
    for (int64_t b = 0; b < out.B.count(); ++b) {
      const int64_t width = out.B.width(b);
      const Operand<const S> from = g.from_channel(layout, out.B.offset(b));
      const Operand<const S> with = x.from_channel(layout, out.B.offset(b));
      S* target = product.data() + (out.B.data(b) - out.B.data(0));
      linalg::gemm(left, right, width, width, tile.samples, S(1), from.data, from.stride, with.data,
                   with.stride, pending == 0 ? S(0) : S(1), target, width);
    }
    pending += tile.samples;
    if (pending < flush_after && t + 1 < end) continue;
    for (size_t k = 0; k < product.size(); ++k) out.B.values()[k] += product[k];
    pending = 0;
  }
  runs.add_sums(sum, out.sum.data());
}

/// Of blocks of few channels: summed in T over a panel, then in double.
template <typename T>
void products_panels(const T* grad, const T* data, const Layout& layout, const Vector& center,
                     const Tiling& tiling, int64_t begin, int64_t end, GradientSums& out) {
  const Loops<T>& loop = loops<T>();
  const Runs runs(layout);
  const bool by_sample = layout.sample_major;
  BlockMatrix sums = merged(out.B, by_sample);  // zeros
  const int64_t block = sums.block(), stride = panel_row<T>(layout, block);
  const PanelSource<T> left(layout, grad, Vector(layout.channels), 1),
      right(layout, data, center, 1);
  const std::vector<T> zero(whole_vectors<T>(block));
  const int64_t size = panel_size<T>(layout, block);
  std::vector<T> copies(2 * size), square(block * stride);
  Vector sum(runs.size());
  for_panels(layout, tiling, begin, end, sums, [&](int64_t b, const Piece& piece) {
    const int64_t first = sums.offset(b), width = sums.width(b), count = piece.count();
    if (b == 0 && by_sample) {
      loop.sum(grad + piece.offset, count * layout.channels, runs.period(), sum.data());
    }
    const Panel<T> g = left.at(piece, first, width, !by_sample, copies.data(), stride);
    const Panel<T> x = right.at(piece, first, width, true, copies.data() + size, stride);
    if (!by_sample) {
      for (int64_t i = 0; i < width; ++i)
        loop.sum(g.data + i * g.stride, count, 1, &sum[first + i]);
      loop.row_products(g.data, g.stride, x.data, x.stride, whole_vectors<T>(count), width,
                        sums.data(b));
      return;
    }
    const PanelProduct<T> product = {g.data, 1, g.stride, x.data, x.stride};
    loop.multiply(width, whole_vectors<T>(width), count, 1, &product, nullptr, zero.data(),
                  square.data(), stride);
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 0; j < width; ++j) sums.data(b)[i * width + j] += square[i * stride + j];
  });
  runs.add_sums(sum, out.sum.data());
  for (int64_t b = 0; b < out.B.count(); ++b) {  // the blocks out of the merged ones
    const int64_t from = out.B.offset(b) / block, at = out.B.offset(b) - sums.offset(from);
    for (int64_t i = 0; i < out.B.width(b); ++i)
      std::copy_n(sums.data(from) + (at + i) * sums.width(from) + at, out.B.width(b),
                  out.B.data(b) + i * out.B.width(b));
  }
}

}  // namespace

template <typename T, typename S>
GradientSums cpu_products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                          int64_t block) {
  const Layout layout = layout_of(x);
  const bool panels = fits_panels(block) && std::is_same_v<T, S>;
  const Tiling tiling(layout, sizeof(T), panels ? panel_samples : 2048);
  const int64_t n = layout.channels;
  std::vector<GradientSums> parts(tiling.ranges(), {BlockMatrix(n, block), Vector(n)});
  tiling.for_ranges([&](int64_t r, int64_t begin, int64_t end) {
    const T *grad = g.data_ptr<T>(), *data = x.data_ptr<T>();
    if (block == 1)  // its sums are in double whatever the data
      products_diagonal(grad, data, layout, center, tiling, begin, end, parts[r]);
    else if (panels)
      products_panels(grad, data, layout, center, tiling, begin, end, parts[r]);
    else
      products_dense<T, S>(grad, data, layout, center, tiling, begin, end, parts[r]);
  });
  for (size_t r = 1; r < parts.size(); ++r) {
    parts[0].B += parts[r].B;
    for (int64_t c = 0; c < n; ++c) parts[0].sum[c] += parts[r].sum[c];
  }
  return std::move(parts[0]);
}

template <typename T>
Vector cpu_channel_sums(const at::Tensor& g) {
  const Layout layout = layout_of(g);
  const Tiling tiling(layout, sizeof(T));
  const Runs runs(layout);
  std::vector<Vector> parts(tiling.ranges(), Vector(layout.channels));
  tiling.for_ranges([&](int64_t r, int64_t begin, int64_t end) {
    const T* grad = g.data_ptr<T>();
    Vector sum(runs.size());
    for (int64_t t = begin; t < end; ++t)
      runs.for_each(tiling[t], [&](const Run& run) {
        loops<T>().sum(grad + run.at, run.count, runs.period(), &sum[run.channel]);
      });
    runs.add_sums(sum, parts[r].data());
  });
  for (size_t r = 1; r < parts.size(); ++r)
    for (int64_t c = 0; c < layout.channels; ++c) parts[0][c] += parts[r][c];
  return std::move(parts[0]);
}

template Vector cpu_channel_sums<float>(const at::Tensor&);
template Vector cpu_channel_sums<double>(const at::Tensor&);
template GradientSums cpu_products<float, float>(const at::Tensor&, const at::Tensor&,
                                                 const Vector&, int64_t);
template GradientSums cpu_products<float, double>(const at::Tensor&, const at::Tensor&,
                                                  const Vector&, int64_t);
template GradientSums cpu_products<double, double>(const at::Tensor&, const at::Tensor&,
                                                   const Vector&, int64_t);

}  // namespace orthobatch::kernels
