#include "data/augment.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace orthobatch::data {

Placement identity_placement() { return {0, 1, 0, 0, 0, 1}; }

Placement random_placement(const Augmentation& augmentation, int height, int width,
                           Random& random) {
  const double zoom = random.uniform(-augmentation.zoom_out, augmentation.zoom_in);
  const double shift_x = zoom * random.uniform(), shift_y = zoom * random.uniform();
  const double angle = random.uniform(-augmentation.rotation, augmentation.rotation) * (M_PI / 180);
  // Pixel x of the output is pixel x + shift of the zoomed image, which has width + zoom pixels;
  // centres of pixels are at half-integers. Then the turn about the centre of the image.
  const double scale_x = width / (width + zoom), scale_y = height / (height + zoom);
  const double cx = (width - 1) / 2.0, cy = (height - 1) / 2.0;
  const double x0 = (0.5 + shift_x) * scale_x - 0.5 - cx;
  const double y0 = (0.5 + shift_y) * scale_y - 0.5 - cy;
  const double c = std::cos(angle), s = std::sin(angle);
  Placement p = {cx + c * x0 - s * y0, c * scale_x, -s * scale_y,
                 cy + s * x0 + c * y0, s * scale_x, c * scale_y};
  if (augmentation.mirror && random.below(2) == 1) {  // x becomes width − 1 − x
    p.u0 += p.ux * (width - 1), p.ux = -p.ux;
    p.v0 += p.vx * (width - 1), p.vx = -p.vx;
  }
  return p;
}

Resampler::Resampler(int height, int width, int channels, const InputScale& scale)
    : height_(height),
      width_(width),
      channels_(channels),
      margin_(1),
      padded_(static_cast<size_t>(height + 2) * (width + 2) * channels) {
  if (static_cast<int>(scale.mean.size()) != channels ||
      scale.deviation.size() != scale.mean.size())
    throw std::invalid_argument("Resampler: one mean and deviation per channel");
  for (int c = 0; c < channels; ++c) {
    factor_.push_back(static_cast<float>(1 / (255 * scale.deviation[c])));
    offset_.push_back(static_cast<float>(-scale.mean[c] / scale.deviation[c]));
  }
}

void Resampler::operator()(const uint8_t* image, float* out) const {
  const int pixels = height_ * width_;
  for (int i = 0; i < pixels; ++i)
    for (int c = 0; c < channels_; ++c, ++image, ++out) *out = factor_[c] * *image + offset_[c];
}

void Resampler::operator()(const uint8_t* image, const Placement& placement, float* out) {
  // Scaled, with the edge pixels repeated once around: four neighbours exist for every point that
  // is clamped to the image.
  const int row = (width_ + 2 * margin_) * channels_;
  for (int y = 0; y < height_; ++y) {
    float* line = padded_.data() + (y + margin_) * row;
    const uint8_t* source = image + static_cast<size_t>(y) * width_ * channels_;
    for (int x = 0; x < width_; ++x)
      for (int c = 0; c < channels_; ++c)
        line[(x + margin_) * channels_ + c] = factor_[c] * source[x * channels_ + c] + offset_[c];
    std::copy_n(line + channels_, channels_, line);
    std::copy_n(line + width_ * channels_, channels_, line + (width_ + 1) * channels_);
  }
  std::copy_n(padded_.data() + row, row, padded_.data());
  std::copy_n(padded_.data() + height_ * row, row, padded_.data() + (height_ + 1) * row);
  switch (channels_) {
    case 1:
      return resample<1>(placement, out);
    case 3:
      return resample<3>(placement, out);
    default:
      return resample<0>(placement, out);
  }
}

template <int C>
void Resampler::resample(const Placement& p, float* out) const {
  const int channels = C > 0 ? C : channels_;
  const int row = (width_ + 2 * margin_) * channels;
  const float last_u = static_cast<float>(width_ - 1), last_v = static_cast<float>(height_ - 1);
  const float ux = static_cast<float>(p.ux), vx = static_cast<float>(p.vx);
  for (int y = 0; y < height_; ++y) {
    const float u_start = static_cast<float>(p.u0 + p.uy * y);
    const float v_start = static_cast<float>(p.v0 + p.vy * y);
    for (int x = 0; x < width_; ++x, out += channels) {
      const float u = std::clamp(u_start + ux * static_cast<float>(x), 0.0f, last_u);
      const float v = std::clamp(v_start + vx * static_cast<float>(x), 0.0f, last_v);
      const int iu = static_cast<int>(u), iv = static_cast<int>(v);
      const float fu = u - static_cast<float>(iu), fv = v - static_cast<float>(iv);
      const float* corner = padded_.data() + (iv + margin_) * row + (iu + margin_) * channels;
      for (int c = 0; c < channels; ++c) {
        const float top = corner[c] + fu * (corner[c + channels] - corner[c]);
        const float* below = corner + row;
        const float bottom = below[c] + fu * (below[c + channels] - below[c]);
        out[c] = top + fv * (bottom - top);
      }
    }
  }
}

Augmenter::Augmenter(const ImageSet& images, const InputScale& scale,
                     const Augmentation& augmentation, uint64_t seed)
    : images_(images),
      resampler_(images.height, images.width, images.channels, scale),
      augmentation_(augmentation),
      seed_(seed) {}

void Augmenter::operator()(int64_t epoch, int64_t index, float* out) {
  const uint8_t* image = images_.image(index);
  if (augmentation_.none()) return resampler_(image, out);
  Random random(seed_, epoch, index);
  resampler_(image, random_placement(augmentation_, images_.height, images_.width, random), out);
}

}  // namespace orthobatch::data
