#pragma once
// The inner loops of the passes, compiled once for each generation of vector units; `loops` gives
// the set for the processor the program finds itself on.
//
// A sample-major tile is one run of values whose channel repeats with the period N; a channel-major
// tile is N runs of one channel each, the period then being 1. So each loop takes a run of `count`
// values and constants of `period` values. Sums are in double.

#include <cstdint>

namespace orthobatch::kernels {

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

  // The covariance. Values are packed in double, less the shift, then multiplied among themselves.
  /// Channels side by side in panels of `lanes`: panel k starts at k · panel_stride(samples), each
  /// sample's values together; those beyond `width` are left alone. `in` has a sample every
  /// `stride` values. sum += in − shift.
  void (*pack_panels)(const T* in, int64_t samples, int64_t stride, int64_t width, const T* shift,
                      double* panels, double* sum);
  /// One channel's run, with zeros up to the next multiple of `lanes`. Returns Σ(in − shift).
  double (*pack_row)(const T* in, int64_t count, T shift, double* out);
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
