#pragma once
// The data cut into tiles of samples that fit the cache, and the tiles into one range per thread.

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

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

class Tiling {
 public:
  /// Tiles of about 128 KiB: with a packed copy beside it that stays in a core's L2.
  Tiling(const Layout& layout, int64_t bytes_per_value)
      : layout_(layout),
        per_tile_(std::clamp<int64_t>((128 << 10) / (bytes_per_value * layout.channels), 16, 2048)),
        per_outer_((layout.inner + per_tile_ - 1) / per_tile_) {}

  int64_t count() const { return layout_.outer * per_outer_; }
  int64_t max_samples() const { return std::min(per_tile_, layout_.inner); }

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

}  // namespace orthobatch::kernels
