#pragma once
// The inner loops of the passes, compiled once for each generation of vector units; `loops` gives
// the set for the processor the program finds itself on.
//
// A sample-major tile is one run of values whose channel repeats with the period N; a channel-major
// tile is N runs of one channel each, the period then being 1. So each loop takes a run of `count`
// values and constants of `period` values. Sums are in double.

#include <cstdint>

namespace orthobatch::kernels {

/// A factor rows × depth, its entry (r, k) at r · left_stride + k · left_step, and one depth × columns.
template <typename T>
struct PanelProduct {
  const T* left;
  int64_t left_stride;
  int64_t left_step;
  const T* right;
  int64_t right_stride;
};

template <typename T>
struct Loops {
  /// out = constant
  void (*fill)(int64_t count, int64_t period, const T* constant, T* out);
  /// out = (in − center) · factor
  void (*center)(const T* in, int64_t count, int64_t period, const T* center, T factor, T* out);
  /// sum += in
  void (*sum)(const T* in, int64_t count, int64_t period, double* sum);

  // The four passes for a diagonal P and Q.
  /// sum += in − shift, square += (in − shift)²
  void (*moments)(const T* in, int64_t count, int64_t period, const T* shift, double* sum,
                  double* square);
  /// out = p (in − center) + constant
  void (*transform)(const T* in, int64_t count, int64_t period, const T* p, const T* center,
                    const T* constant, T* out);
  /// sum += g, product += g (x − center)
  void (*products)(const T* g, const T* x, int64_t count, int64_t period, const T* center,
                   double* sum, double* product);
  /// out = p g + q (x − center) factor + constant
  void (*gradient)(const T* g, const T* x, int64_t count, int64_t period, const T* p, const T* q,
                   const T* center, T factor, const T* constant, T* out);

  /// out += q (x − center) factor + constant
  void (*accumulate)(const T* x, int64_t count, int64_t period, const T* q, const T* center,
                     T factor, const T* constant, T* out);

  // Blocks of few channels (panels.h). A panel's rows are `stride` apart.
  int64_t lanes;  ///< values of T in a vector
  /// out = (in − center) · factor, a row per channel of `parts` times `samples` values, the parts
  /// `apart` and the channels `from_stride` in memory; with zeros up to the next multiple of `lanes`.
  void (*pack_channels)(const T* in, int64_t parts, int64_t apart, int64_t samples, int64_t width,
                        int64_t from_stride, const T* center, T factor, T* out, int64_t stride);
  /// The same, a row per sample.
  void (*pack_samples)(const T* in, int64_t samples, int64_t from_stride, int64_t width,
                       const T* center, T factor, T* out, int64_t stride);
  void (*unpack)(const T* in, int64_t rows, int64_t stride, int64_t width, T* out,
                 int64_t to_stride);
  /// out = constant + the sum of `count` products, rows × depth times depth × columns, columns a
  /// multiple of `lanes`. The constant is that of a row or of a column; the other is null.
  void (*multiply)(int64_t rows, int64_t columns, int64_t depth, int64_t count,
                   const PanelProduct<T>* products, const T* of_row, const T* of_column, T* out,
                   int64_t stride);
  /// square += A Bᵀ of `width` rows of `count` values, a multiple of `lanes`, summed in T over the
  /// rows and added in double.
  void (*row_products)(const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t count,
                       int64_t width, double* square);

  // The covariance. Values are packed in double, less the shift, then multiplied among themselves.
  /// Channels side by side in panels of `lanes`: panel k starts at k · panel_stride(samples), each
  /// sample's values together; those beyond `width` are left alone. `in` has a sample every
  /// `stride` values. sum += in − shift.
  void (*pack_panels)(const T* in, int64_t samples, int64_t stride, int64_t width,
                      const double* shift, double* panels, double* sum);
  /// As pack_channels, up to a multiple of CovarianceLoops::lanes. sum += in − shift.
  void (*pack_rows)(const T* in, int64_t parts, int64_t apart, int64_t samples, int64_t width,
                    int64_t from_stride, const double* shift, double* rows, int64_t stride,
                    double* sum);
};

struct CovarianceLoops {
  int64_t lanes;  ///< doubles in a vector
  /// square += Σ over samples, lower triangle in whole tiles; `square` has panels·lanes rows.
  void (*multiply_panels)(const double* panels, int64_t samples, int64_t count, double* square);
  /// The same from `width` rows of `count` values (a multiple of `lanes`), `stride` apart;
  /// `square` has `width` rows.
  void (*multiply_rows)(const double* rows, int64_t count, int64_t stride, int64_t width,
                        double* square);
};

/// Away from powers of two, so that the panels do not all fall on the same lines of the cache.
inline int64_t panel_stride(int64_t samples, int64_t lanes) { return samples * lanes + 8; }

/// The name of base::loop_set(), and its loops.
const char* loops_name();
template <typename T>
const Loops<T>& loops();
const CovarianceLoops& covariance_loops();

}  // namespace orthobatch::kernels
