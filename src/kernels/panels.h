#pragma once
// The passes for blocks of few channels, where a call of gemm costs more than its work: a block's
// channels over some hundred samples, of several images where those are small, are copied side by
// side and multiplied by our own loops.
//
// A panel of channel-major data has a row per channel, one of sample-major data a row per sample.

#include <algorithm>
#include <vector>

#include "kernels/cpu_passes.h"

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

/// Blocks of few channels beside each other as one, so that a row of sample-major data fills vectors.
inline core::BlockMatrix merged(const core::BlockMatrix& m, bool by_sample) {
  constexpr int64_t enough = 16;
  const int64_t together = by_sample ? std::max<int64_t>(1, enough / m.block()) : 1;
  if (together == 1) return m;
  core::BlockMatrix out(m.size(), std::min(m.size(), together * m.block()));
  for (int64_t b = 0; b < m.count(); ++b) {
    const int64_t into = m.offset(b) / out.block(), first = m.offset(b) - out.offset(into);
    for (int64_t i = 0; i < m.width(b); ++i)
      std::copy_n(m.data(b) + i * m.width(b), m.width(b),
                  out.data(into) + (first + i) * out.width(into) + first);
  }
  return out;
}

template <typename T>
int64_t whole_vectors(int64_t values) {
  const int64_t lanes = loops<T>().lanes;
  return (values + lanes - 1) / lanes * lanes;
}

/// Rows of a panel's copy are so far apart, and it has so many values.
template <typename T>
int64_t panel_row(const Layout& layout, int64_t block) {
  return layout.sample_major ? whole_vectors<T>(block) : whole_vectors<T>(panel_samples) + 16;
}
template <typename T>
int64_t panel_size(const Layout& layout, int64_t block) {
  return panel_row<T>(layout, block) * (layout.sample_major ? panel_samples : block);
}

/// Rows of values, `stride` apart.
template <typename T>
struct Panel {
  const T* data;
  int64_t stride;
};

/// Data as panels of (X − center) · factor: the tensor's own memory, or a copy where it is centred,
/// of several images, or has no rows of whole vectors.
template <typename T>
class PanelSource {
 public:
  PanelSource(const Layout& layout, const T* data, const core::Vector& center, T factor)
      : layout_(layout), data_(data), center_(center.begin(), center.end()), factor_(factor) {
    as_is_ = factor == 1 && all_zero(center);
  }

  /// `copy` has room for a panel. Rows in whole vectors where `whole` says so.
  Panel<T> at(const Piece& piece, int64_t first, int64_t width, bool whole, T* copy,
              int64_t stride) const {
    const Loops<T>& loop = loops<T>();
    const bool by_sample = layout_.sample_major;
    const T* from = data_ + piece.offset + first * (by_sample ? 1 : piece.stride);
    const int64_t row = by_sample ? width : piece.samples;
    if (as_is_ && piece.parts == 1 && (!whole || row % loop.lanes == 0))
      return {from, piece.stride};
    if (by_sample)
      loop.pack_samples(from, piece.samples, piece.stride, width, &center_[first], factor_, copy,
                        stride);
    else
      loop.pack_channels(from, piece.parts, piece.apart, piece.samples, width, piece.stride,
                         &center_[first], factor_, copy, stride);
    return {copy, stride};
  }

 private:
  Layout layout_;
  const T* data_;
  std::vector<T> center_;
  T factor_;
  bool as_is_;
};

/// visit(block, piece): in sample-major neighbouring blocks share lines of memory.
template <typename Visit>
void for_panels(const Layout& layout, const Tiling& tiling, int64_t begin, int64_t end,
                const core::BlockMatrix& shape, const Visit& visit) {
  if (layout.sample_major)
    for_pieces(layout, tiling, begin, end, [&](const Piece& piece) {
      for (int64_t b = 0; b < shape.count(); ++b) visit(b, piece);
    });
  else
    for (int64_t b = 0; b < shape.count(); ++b)
      for_pieces(layout, tiling, begin, end, [&](const Piece& piece) { visit(b, piece); });
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

/// out = constant + the terms, of which there are one or two.
template <typename T>
void apply_panels(const Layout& layout, const std::vector<PanelTerm<T>>& terms,
                  const core::Vector& constant, T* out) {
  const Loops<T>& loop = loops<T>();
  const bool by_sample = layout.sample_major;
  const core::BlockMatrix shape = merged(*terms[0].matrix, by_sample);
  const int64_t widest = whole_vectors<T>(shape.block()), entries = shape.block() * widest;
  // Rows of M, or where rows are samples of its transpose, filled up to whole vectors.
  std::vector<std::vector<T>> matrices;
  std::vector<PanelSource<T>> sources;
  for (const PanelTerm<T>& term : terms) {
    const core::BlockMatrix m = merged(*term.matrix, by_sample);
    std::vector<T> of(shape.count() * entries);
    for (int64_t b = 0; b < shape.count(); ++b)
      for (int64_t i = 0, width = shape.width(b); i < width; ++i)
        for (int64_t j = 0; j < width; ++j)
          of[b * entries + i * widest + j] = static_cast<T>(
              m.data(b)[term.transposed != by_sample ? j * width + i : i * width + j]);
    matrices.push_back(std::move(of));
    sources.emplace_back(layout, term.data, *term.center, term.factor);
  }
  std::vector<T> base(constant.begin(), constant.end());
  base.resize(base.size() + widest);  // read in whole vectors

  const Tiling tiling(layout, sizeof(T), panel_samples);
  const int64_t stride = panel_row<T>(layout, shape.block());
  const int64_t size = panel_size<T>(layout, shape.block());
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<T> packed(terms.size() * size), result(size);
    for_panels(layout, tiling, begin, end, shape, [&](int64_t b, const Piece& piece) {
      const int64_t first = shape.offset(b), width = shape.width(b), count = piece.count();
      PanelProduct<T> product[2];
      for (size_t k = 0; k < terms.size(); ++k) {
        const Panel<T> panel =
            sources[k].at(piece, first, width, !by_sample, &packed[k * size], stride);
        const T* matrix = &matrices[k][b * entries];
        product[k] = by_sample ? PanelProduct<T>{panel.data, panel.stride, 1, matrix, widest}
                               : PanelProduct<T>{matrix, widest, 1, panel.data, panel.stride};
      }
      // Straight into the tensor where rows are whole vectors.
      T* const target = out + piece.offset + first * (by_sample ? 1 : piece.stride);
      const int64_t row = by_sample ? width : count;
      const bool straight = piece.parts == 1 && row % loop.lanes == 0;
      T* const to = straight ? target : result.data();
      loop.multiply(by_sample ? count : width, whole_vectors<T>(row), width,
                    static_cast<int64_t>(terms.size()), product, by_sample ? nullptr : &base[first],
                    by_sample ? &base[first] : nullptr, to, straight ? piece.stride : stride);
      if (straight) return;
      if (by_sample)
        loop.unpack(to, count, stride, width, target, piece.stride);
      else
        for (int64_t part = 0; part < piece.parts; ++part)
          loop.unpack(to + part * piece.samples, width, stride, piece.samples,
                      target + part * piece.apart, piece.stride);
    });
  });
}

}  // namespace orthobatch::kernels
