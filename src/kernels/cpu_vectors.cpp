// Products of the data with a vector, in double: by channel and by sample. Their data are weights,
// small beside what a layer sees.

#include "kernels/cpu_passes.h"

namespace orthobatch::kernels {

template <typename T>
Vector cpu_dots(const at::Tensor& x, const Vector& v, int64_t groups) {
  const Layout layout = layout_of(x);
  const Tiling tiling(layout, sizeof(T));
  const int64_t width = layout.channels / groups;
  const T* data = x.data_ptr<T>();
  Vector out(layout.samples() * groups);
  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      double* to = out.data() + first_sample(layout, tile) * groups;
      if (layout.sample_major) {
        for (int64_t s = 0; s < tile.samples; ++s)
          for (int64_t g = 0; g < groups; ++g) {
            const T* in = data + tile.offset + s * tile.stride + g * width;
            double sum = 0;
            for (int64_t c = 0; c < width; ++c)
              sum += static_cast<double>(in[c]) * v[g * width + c];
            to[s * groups + g] = sum;
          }
        continue;
      }
      for (int64_t c = 0; c < layout.channels; ++c) {
        const T* in = data + tile.offset + c * tile.stride;
        for (int64_t s = 0; s < tile.samples; ++s)
          to[s * groups + c / width] += static_cast<double>(in[s]) * v[c];
      }
    }
  });
  return out;
}

template <typename T>
Vector cpu_weighted_sums(const at::Tensor& x, const Vector& w, int64_t groups) {
  const Layout layout = layout_of(x);
  const Tiling tiling(layout, sizeof(T));
  const int64_t width = layout.channels / groups;
  const T* data = x.data_ptr<T>();
  std::vector<Vector> parts(tiling.ranges(), Vector(layout.channels));
  tiling.for_ranges([&](int64_t r, int64_t begin, int64_t end) {
    double* sum = parts[r].data();
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      const double* by_sample = w.data() + first_sample(layout, tile) * groups;
      if (layout.sample_major) {
        for (int64_t s = 0; s < tile.samples; ++s)
          for (int64_t g = 0; g < groups; ++g) {
            const T* in = data + tile.offset + s * tile.stride + g * width;
            const double factor = by_sample[s * groups + g];
            for (int64_t c = 0; c < width; ++c) sum[g * width + c] += in[c] * factor;
          }
        continue;
      }
      for (int64_t c = 0; c < layout.channels; ++c) {
        const T* in = data + tile.offset + c * tile.stride;
        for (int64_t s = 0; s < tile.samples; ++s)
          sum[c] += in[s] * by_sample[s * groups + c / width];
      }
    }
  });
  for (size_t r = 1; r < parts.size(); ++r)
    for (int64_t c = 0; c < layout.channels; ++c) parts[0][c] += parts[r][c];
  return std::move(parts[0]);
}

template Vector cpu_dots<float>(const at::Tensor&, const Vector&, int64_t);
template Vector cpu_dots<double>(const at::Tensor&, const Vector&, int64_t);
template Vector cpu_weighted_sums<float>(const at::Tensor&, const Vector&, int64_t);
template Vector cpu_weighted_sums<double>(const at::Tensor&, const Vector&, int64_t);

}  // namespace orthobatch::kernels
