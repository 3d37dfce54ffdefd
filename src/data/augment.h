#pragma once
// Random zoom, placement, rotation and mirroring of a training image, in one bilinear resampling.

#include <vector>

#include "data/images.h"
#include "data/random.h"

namespace orthobatch::data {

/// Ranges of the random changes. The zoom z is uniform between −zoom_out and zoom_in pixels: the
/// image is drawn at width + z pixels, then cut (z > 0) or placed (z < 0) uniformly at random.
struct Augmentation {
  double zoom_out = 0;  ///< pixels
  double zoom_in = 0;   ///< pixels
  double rotation = 0;  ///< degrees, to either side
  bool mirror = false;  ///< left and right exchanged in every other image

  bool none() const { return zoom_out == 0 && zoom_in == 0 && rotation == 0 && !mirror; }
};

/// Where an output pixel (x, y) comes from: (u, v) = (u0 + ux·x + uy·y, v0 + vx·x + vy·y).
struct Placement {
  double u0, ux, uy, v0, vx, vy;
};

Placement random_placement(const Augmentation& augmentation, int height, int width, Random& random);
Placement identity_placement();

/// Turns one image of bytes into the net's input. Holds a padded copy of the image: one per thread.
class Resampler {
 public:
  Resampler(int height, int width, int channels, const InputScale& scale);

  /// `image` and `out` are height × width × channels. A pixel beyond the edge is the nearest one
  /// on it.
  void operator()(const uint8_t* image, const Placement& placement, float* out);
  /// Without resampling.
  void operator()(const uint8_t* image, float* out) const;

 private:
  template <int C>
  void resample(const Placement& placement, float* out) const;

  int height_, width_, channels_, margin_;
  std::vector<float> factor_, offset_;  ///< per channel: input = factor · byte + offset
  std::vector<float> padded_;
};

/// What training makes of the images of a set: image i in epoch e depends on (seed, e, i) alone.
/// One per thread, as a Resampler.
class Augmenter {
 public:
  /// `images` must outlive it.
  Augmenter(const ImageSet& images, const InputScale& scale, const Augmentation& augmentation,
            uint64_t seed);

  /// `out` is height × width × channels.
  void operator()(int64_t epoch, int64_t index, float* out);

 private:
  const ImageSet& images_;
  Resampler resampler_;
  Augmentation augmentation_;
  uint64_t seed_;
};

}  // namespace orthobatch::data
