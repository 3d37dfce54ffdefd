#include "kernels/rank_update.h"

#include <algorithm>

// The same source compiled for each generation of vector units, chosen when the program starts.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define ORTHOBATCH_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ORTHOBATCH_CLONES
#endif

namespace orthobatch::kernels {
namespace {

constexpr int64_t tile_rows = 4, tile_cols = 8;

/// Four doubles at any address.
typedef double Lane __attribute__((vector_size(32), aligned(8)));

// One 4×8 tile of C held in registers over all samples.
ORTHOBATCH_CLONES void full_tile(const double* a, const double* b, int64_t samples, int64_t stride,
                                 double* c, int64_t width) {
  Lane left0 = {}, left1 = {}, left2 = {}, left3 = {};
  Lane right0 = {}, right1 = {}, right2 = {}, right3 = {};
  for (int64_t s = 0; s < samples; ++s, a += stride, b += stride) {
    const Lane left = *reinterpret_cast<const Lane*>(b);
    const Lane right = *reinterpret_cast<const Lane*>(b + 4);
    left0 += a[0] * left;
    right0 += a[0] * right;
    left1 += a[1] * left;
    right1 += a[1] * right;
    left2 += a[2] * left;
    right2 += a[2] * right;
    left3 += a[3] * left;
    right3 += a[3] * right;
  }
  const auto add = [&](int64_t row, const Lane& left, const Lane& right) {
    *reinterpret_cast<Lane*>(c + row * width) += left;
    *reinterpret_cast<Lane*>(c + row * width + 4) += right;
  };
  add(0, left0, right0);
  add(1, left1, right1);
  add(2, left2, right2);
  add(3, left3, right3);
}

// The edges, where fewer rows or columns are left.
ORTHOBATCH_CLONES void edge_tile(const double* a, const double* b, int64_t samples, int64_t stride,
                                 double* c, int64_t width, int64_t rows, int64_t cols) {
  double sum[tile_rows][tile_cols] = {};
  for (int64_t s = 0; s < samples; ++s, a += stride, b += stride)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) sum[i][j] += a[i] * b[j];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) c[i * width + j] += sum[i][j];
}

}  // namespace

void rank_update(const double* a, int64_t samples, int64_t width, int64_t stride, double* c) {
  for (int64_t i = 0; i < width; i += tile_rows) {
    const int64_t rows = std::min(tile_rows, width - i);
    for (int64_t j = 0; j < i + rows; j += tile_cols) {
      const int64_t cols = std::min(tile_cols, width - j);
      double* target = c + i * width + j;
      if (rows == tile_rows && cols == tile_cols)
        full_tile(a + i, a + j, samples, stride, target, width);
      else
        edge_tile(a + i, a + j, samples, stride, target, width, rows, cols);
    }
  }
}

}  // namespace orthobatch::kernels
