#pragma once
// The passes for blocks of few channels, where a call of gemm costs more than its work: a block's
// channels over some hundred samples, of several images where those are small, are copied side by
// side and multiplied by our own loops.
//
// A panel of channel-major data has a row per channel, one of sample-major data a row per sample.

#include <algorithm>
#include <vector>

#include "core/block_matrix.h"
#include "kernels/loops.h"
#include "kernels/tiles.h"

namespace orthobatch::kernels {

/// The widest block that panels take, and the samples of a panel.
constexpr int64_t widest_panel = 32, panel_samples = 256;

inline bool fits_panels(int64_t block) { return block > 1 && block <= widest_panel; }

/// Images or parts of one that lie in a panel side by side: `parts` times `samples`, `apart` in memory.
struct Piece {
  int64_t offset, parts, samples, apart, stride;
  int64_t count() const { return parts * samples; }
};

/// visit(piece) over the tiles from begin to end.
template <typename Visit>
void for_pieces(const Layout& layout, const Tiling& tiling, int64_t begin, int64_t end,
                const Visit& visit) {
  for (int64_t t = begin; t < end;) {
    const Tile tile = tiling[t];
    const bool whole = !layout.sample_major && tile.samples == layout.inner;
    const int64_t parts = whole ? std::clamp<int64_t>(panel_samples / tile.samples, 1, end - t) : 1;
    visit(Piece{tile.offset, parts, tile.samples, layout.channels * layout.inner, tile.stride});
    t += parts;
  }
}

/// A term M (X − center) · factor of a map, M in blocks.
template <typename T>
struct PanelTerm {
  const T* data;
  const core::BlockMatrix* matrix;
  bool transposed;  // Mᵀ in the place of M
  const core::Vector* center;
  T factor = 1;
};

/// out = constant + the terms.
template <typename T>
void apply_panels(const Layout& layout, const std::vector<PanelTerm<T>>& terms,
                  const core::Vector& constant, T* out) {
  const Loops<T>& loop = loops<T>();
  const core::BlockMatrix& shape = *terms[0].matrix;
  const auto whole = [&](int64_t n) { return (n + loop.lanes - 1) / loop.lanes * loop.lanes; };
  const int64_t widest = whole(shape.block()), entries = shape.block() * widest;
  const bool by_sample = layout.sample_major;
  // Rows of M, or where rows are samples of its transpose, filled up to whole vectors.
  std::vector<std::vector<T>> matrices, centers;
  for (const PanelTerm<T>& term : terms) {
    std::vector<T> of(shape.count() * entries);
    for (int64_t b = 0; b < shape.count(); ++b) {
      const int64_t width = shape.width(b);
      const double* from = term.matrix->data(b);
      for (int64_t i = 0; i < width; ++i)
        for (int64_t j = 0; j < width; ++j)
          of[b * entries + i * widest + j] =
              static_cast<T>(from[term.transposed != by_sample ? j * width + i : i * width + j]);
    }
    matrices.push_back(std::move(of));
    centers.emplace_back(term.center->begin(), term.center->end());
  }
  std::vector<T> base(constant.begin(), constant.end());
  base.resize(base.size() + widest);  // read in whole vectors

  const Tiling tiling(layout, sizeof(T), panel_samples);
  const int64_t stride = by_sample ? widest : whole(panel_samples) + 16;
  const int64_t size = by_sample ? panel_samples * widest : shape.block() * stride;
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<T> packed(terms.size() * size), result(size);
    const auto block_of = [&](int64_t b, const Piece& piece) {
      const int64_t first = shape.offset(b), width = shape.width(b), count = piece.count();
      const int64_t at = piece.offset + first * (by_sample ? 1 : piece.stride);
      PanelProduct<T> product[2];
      for (size_t k = 0; k < terms.size(); ++k) {
        T* const panel = &packed[k * size];
        const T *matrix = &matrices[k][b * entries], *center = &centers[k][first];
        if (by_sample) {
          loop.pack_samples(terms[k].data + at, count, piece.stride, width, center, terms[k].factor,
                            panel, stride);
          product[k] = {panel, stride, matrix, widest};
        } else {
          loop.pack_channels(terms[k].data + at, piece.parts, piece.apart, piece.samples, width,
                             piece.stride, center, terms[k].factor, panel, stride);
          product[k] = {matrix, widest, panel, stride};
        }
      }
      const auto number = static_cast<int64_t>(terms.size());
      if (by_sample)
        loop.multiply(count, whole(width), width, number, product, nullptr, &base[first],
                      result.data(), stride);
      else
        loop.multiply(width, whole(count), width, number, product, &base[first], nullptr,
                      result.data(), stride);
      if (by_sample)
        loop.unpack(result.data(), count, stride, width, out + at, piece.stride);
      else
        for (int64_t part = 0; part < piece.parts; ++part)
          loop.unpack(result.data() + part * piece.samples, width, stride, piece.samples,
                      out + at + part * piece.apart, piece.stride);
    };
    if (by_sample)  // neighbouring blocks share lines of memory
      for_pieces(layout, tiling, begin, end, [&](const Piece& piece) {
        for (int64_t b = 0; b < shape.count(); ++b) block_of(b, piece);
      });
    else
      for (int64_t b = 0; b < shape.count(); ++b)
        for_pieces(layout, tiling, begin, end, [&](const Piece& piece) { block_of(b, piece); });
  });
}

// ------------------------------------------------------------------------------ sums over samples

/// X − shift
template <typename T>
struct Shifted {
  const T* data;
  const core::Vector& shift;
};

/// products += A Bᵀ in blocks of any width, sum += A 1, over the tiles from begin to end, in double.
/// Where b is a, the lower triangles alone.
template <typename T>
void sum_products(const Layout& layout, const Tiling& tiling, int64_t begin, int64_t end,
                  const Shifted<T>& a, const Shifted<T>& b, core::BlockMatrix& products,
                  core::Vector& sum) {
  const SampleSums& loop = sample_sums();
  const bool symmetric = a.data == b.data;
  const auto vectors = [&](int64_t n) { return (n + loop.lanes - 1) / loop.lanes; };
  const int64_t samples = std::min(tiling.max_samples(), panel_samples);
  const int64_t stride = panel_samples + 2 * loop.lanes;  // of a row per channel
  const int64_t size = layout.sample_major
                           ? vectors(products.block()) * panel_stride(samples, loop.lanes)
                           : products.block() * stride;
  core::Vector left(size), other(symmetric ? 0 : size), unused(symmetric ? 0 : layout.channels);
  double* const right = symmetric ? left.data() : other.data();
  if (!layout.sample_major) {
    for (int64_t k = 0; k < products.count(); ++k)
      for_pieces(layout, tiling, begin, end, [&](const Piece& piece) {
        const int64_t first = products.offset(k), width = products.width(k);
        const auto pack = [&](const Shifted<T>& of, double* rows, core::Vector& total) {
          loops<T>().pack_rows(of.data + piece.offset + first * piece.stride, piece.parts,
                               piece.apart, piece.samples, width, piece.stride, &of.shift[first],
                               rows, stride, &total[first]);
        };
        pack(a, left.data(), sum);
        if (!symmetric) pack(b, right, unused);
        loop.multiply_rows(left.data(), right, vectors(piece.count()) * loop.lanes, stride, width,
                           products.data(k));
      });
    return;
  }
  // Whole panels, so that the products need no edges.
  std::vector<core::Vector> padded;
  for (int64_t k = 0; k < products.count(); ++k) {
    const int64_t rows = vectors(products.width(k)) * loop.lanes;
    padded.emplace_back(rows * rows);
  }
  for (int64_t t = begin; t < end; ++t) {
    const Tile tile = tiling[t];
    for (int64_t k = 0; k < products.count(); ++k) {
      const int64_t first = products.offset(k), width = products.width(k);
      const auto pack = [&](const Shifted<T>& of, double* panels, core::Vector& total) {
        loops<T>().pack_panels(of.data + tile.offset + first, tile.samples, tile.stride, width,
                               &of.shift[first], panels, &total[first]);
      };
      pack(a, left.data(), sum);
      if (!symmetric) pack(b, right, unused);
      loop.multiply_panels(left.data(), right, tile.samples, vectors(width), padded[k].data());
    }
  }
  for (int64_t k = 0; k < products.count(); ++k) {
    const int64_t width = products.width(k), rows = vectors(width) * loop.lanes;
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 0, last = symmetric ? i + 1 : width; j < last; ++j)
        products.data(k)[i * width + j] += padded[k][i * rows + j];
  }
}

}  // namespace orthobatch::kernels
