#pragma once
// The data cut into tiles of samples that fit the cache, the tiles into one range per thread, and a
// tile into the runs of values that the inner loops take.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "core/matrix.h"

namespace orthobatch::kernels {

/// Memory of a dense (batch, N, …) tensor.
///   sample-major (channels_last, or no spatial extent): one M × N matrix
///   channel-major (contiguous): `outer` matrices of N × `inner`
struct Layout {
  bool sample_major;
  int64_t outer;
  int64_t channels;
  int64_t inner;

  int64_t samples() const { return outer * inner; }
};

inline Layout layout_of(const at::Tensor& x) {
  const int64_t n = x.size(1), m = n == 0 ? 0 : x.numel() / n;
  if (x.movedim(1, -1).is_contiguous()) return {true, 1, n, m};
  return {false, x.size(0), n, m / x.size(0)};
}

/// `samples` consecutive samples of all channels. Element (channel c, sample s) is at
/// offset + s·stride + c (sample-major) or offset + c·stride + s (channel-major).
struct Tile {
  int64_t offset;
  int64_t samples;
  int64_t stride;
};

/// The number of a tile's first sample among all.
inline int64_t first_sample(const Layout& layout, const Tile& tile) {
  if (layout.sample_major) return tile.offset / layout.channels;
  const int64_t image = layout.channels * layout.inner;
  return tile.offset / image * layout.inner + tile.offset % image;
}

/// A row of a packed channel-major tile; padded, or rows of a power of two would all fall on the
/// same lines of the cache.
inline int64_t packed_row(int64_t samples) { return samples + 16; }

class Tiling {
 public:
  /// Tiles of about 128 KiB: with a packed copy beside it that stays in a core's L2. Not below 128
  /// samples: what is done once a tile grows with N².
  Tiling(const Layout& layout, int64_t bytes_per_value, int64_t most_samples = 2048)
      : layout_(layout),
        per_tile_(std::clamp<int64_t>((128 << 10) / (bytes_per_value * layout.channels), 128,
                                      most_samples)),
        per_outer_((layout.inner + per_tile_ - 1) / per_tile_) {}

  int64_t count() const { return layout_.outer * per_outer_; }
  int64_t max_samples() const { return std::min(per_tile_, layout_.inner); }
  /// Of a packed copy of any tile.
  int64_t max_values() const { return layout_.channels * packed_row(max_samples()); }

  /// One range of tiles for each thread, fixed by the thread count alone.
  int64_t ranges() const {
    return std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), count()));
  }

  Tile operator[](int64_t t) const {
    const int64_t first = (t % per_outer_) * per_tile_;
    const int64_t samples = std::min(per_tile_, layout_.inner - first);
    if (layout_.sample_major) return {first * layout_.channels, samples, layout_.channels};
    return {(t / per_outer_) * layout_.channels * layout_.inner + first, samples, layout_.inner};
  }

  /// work(range, tiles begin, tiles end), the ranges in parallel.
  template <typename Work>
  void for_ranges(const Work& work) const {
    const int64_t parts = ranges();
    at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) work(r, r * count() / parts, (r + 1) * count() / parts);
    });
  }

 private:
  Layout layout_;
  int64_t per_tile_;
  int64_t per_outer_;
};

/// Values of a tile that lie one behind the other.
struct Run {
  int64_t at;       // the first, in the tensor
  int64_t packed;   // the first, in a packed copy of the tile
  int64_t count;    // values
  int64_t channel;  // of the first: its entry among the constants
};

/// Tiles as runs for the inner loops (loops.h), and the channels' constants and sums as those take
/// them. Of few channels in sample-major the constants are repeated, so that a period is long
/// enough for a loop.
class Runs {
 public:
  explicit Runs(const Layout& layout)
      : layout_(layout),
        repeats_(layout.sample_major ? std::max<int64_t>(1, 128 / layout.channels) : 1) {}

  int64_t period() const { return layout_.sample_major ? layout_.channels * repeats_ : 1; }
  /// Entries of an array of constants or sums.
  int64_t size() const { return layout_.channels * repeats_; }

  template <typename T>
  std::vector<T> constants(const Vector& v) const {
    std::vector<T> out;
    out.reserve(v.size() * repeats_);
    for (int64_t k = 0; k < repeats_; ++k) out.insert(out.end(), v.begin(), v.end());
    return out;
  }

  /// total += the sums of all repeats
  void add_sums(const Vector& sums, double* total) const {
    for (int64_t k = 0; k < size(); ++k) total[k % layout_.channels] += sums[k];
  }

  /// visit(run), over all of a tile. A packed copy has N values a sample (sample-major) or rows of
  /// packed_row(samples).
  template <typename Visit>
  void for_each(const Tile& tile, const Visit& visit) const {
    if (layout_.sample_major) {
      visit(Run{tile.offset, 0, tile.samples * layout_.channels, 0});
      return;
    }
    for (int64_t c = 0; c < layout_.channels; ++c)
      visit(Run{tile.offset + c * tile.stride, c * packed_row(tile.samples), tile.samples, c});
  }

 private:
  Layout layout_;
  int64_t repeats_;
};

/// The distance of a packed tile's rows.
inline int64_t packed_stride(const Layout& layout, const Tile& tile) {
  return layout.sample_major ? layout.channels : packed_row(tile.samples);
}

}  // namespace orthobatch::kernels
