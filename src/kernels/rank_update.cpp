#include "kernels/rank_update.h"

#include <algorithm>

// The same source compiled for each generation of vector units, chosen when the program starts.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define ORTHOBATCH_CLONES \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define ORTHOBATCH_CLONES
#endif

namespace orthobatch::kernels {
namespace {

constexpr int64_t tile_rows = 4, tile_cols = 8;

/// Eight doubles at any address: one register of AVX-512, two of AVX2.
typedef double Lane __attribute__((vector_size(64), aligned(8)));

// One 4×8 tile of C held in registers over all samples.
ORTHOBATCH_CLONES void full_tile(const double* a, const double* b, int64_t samples, int64_t stride,
                                 double* c, int64_t width) {
  Lane sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};
  for (int64_t s = 0; s < samples; ++s, a += stride, b += stride) {
    const Lane row = *reinterpret_cast<const Lane*>(b);
    sum0 += a[0] * row;
    sum1 += a[1] * row;
    sum2 += a[2] * row;
    sum3 += a[3] * row;
  }
  *reinterpret_cast<Lane*>(c) += sum0;
  *reinterpret_cast<Lane*>(c + width) += sum1;
  *reinterpret_cast<Lane*>(c + 2 * width) += sum2;
  *reinterpret_cast<Lane*>(c + 3 * width) += sum3;
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
