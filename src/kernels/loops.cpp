// Compiled several times with different vector units (ORTHOBATCH_LOOPS names the set). Nothing of
// the standard library may be instantiated here: the linker might take that code, which needs these
// units, for the rest of the program.

#include "kernels/loops.h"

#define RESTRICT __restrict__

namespace orthobatch::kernels::ORTHOBATCH_LOOPS {
namespace {

#ifndef ORTHOBATCH_LANES
#define ORTHOBATCH_LANES 4
#endif
constexpr int lanes = ORTHOBATCH_LANES;  // doubles in a vector
constexpr int wide = 3;                  // vectors beside each other in a tile of accumulators

/// A vector of doubles, and of as many floats, at any address.
typedef double Lane __attribute__((vector_size(8 * lanes), aligned(8), may_alias));
typedef float FloatLane __attribute__((vector_size(4 * lanes), aligned(4), may_alias));

inline Lane load(const double* p) { return *reinterpret_cast<const Lane*>(p); }
inline Lane load(const float* p) {
  return __builtin_convertvector(*reinterpret_cast<const FloatLane*>(p), Lane);
}
inline void store(double* p, const Lane& v) { *reinterpret_cast<Lane*>(p) = v; }
inline double total(const Lane& v) {
  double sum[lanes];
  for (int k = 0; k < lanes; ++k) sum[k] = v[k];
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) sum[k] += sum[k + half];
  return sum[0];
}

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// visit(first value, values) for each repetition of the period.
template <typename Visit>
inline void for_periods(int64_t count, int64_t period, const Visit& visit) {
  for (int64_t at = 0; at < count; at += period) visit(at, least(period, count - at));
}

template <typename T>
void fill(int64_t count, int64_t period, const T* RESTRICT constant, T* RESTRICT out) {
  if (period == 1) {
    for (int64_t k = 0; k < count; ++k) out[k] = constant[0];
    return;
  }
  for_periods(count, period, [&](int64_t at, int64_t values) {
    for (int64_t c = 0; c < values; ++c) out[at + c] = constant[c];
  });
}

template <typename T>
void center(const T* RESTRICT in, int64_t count, int64_t period, const T* RESTRICT center, T factor,
            T* RESTRICT out) {
  if (period == 1) {
    const T middle = center[0];
    for (int64_t k = 0; k < count; ++k) out[k] = (in[k] - middle) * factor;
    return;
  }
  for_periods(count, period, [&](int64_t at, int64_t values) {
    for (int64_t c = 0; c < values; ++c) out[at + c] = (in[at + c] - center[c]) * factor;
  });
}

template <typename T>
void transform(const T* RESTRICT in, int64_t count, int64_t period, const T* RESTRICT p,
               const T* RESTRICT center, const T* RESTRICT constant, T* RESTRICT out) {
  if (period == 1) {
    const T slope = p[0], middle = center[0], base = constant[0];
    for (int64_t k = 0; k < count; ++k) out[k] = slope * (in[k] - middle) + base;
    return;
  }
  for_periods(count, period, [&](int64_t at, int64_t values) {
    for (int64_t c = 0; c < values; ++c)
      out[at + c] = p[c] * (in[at + c] - center[c]) + constant[c];
  });
}

template <typename T>
void gradient(const T* RESTRICT g, const T* RESTRICT x, int64_t count, int64_t period,
              const T* RESTRICT p, const T* RESTRICT q, const T* RESTRICT center, T factor,
              const T* RESTRICT constant, T* RESTRICT out) {
  if (period == 1) {
    const T a = p[0], b = q[0], middle = center[0], base = constant[0];
    for (int64_t k = 0; k < count; ++k) out[k] = a * g[k] + (b * ((x[k] - middle) * factor) + base);
    return;
  }
  for_periods(count, period, [&](int64_t at, int64_t values) {
    for (int64_t c = 0; c < values; ++c)
      out[at + c] = p[c] * g[at + c] + (q[c] * ((x[at + c] - center[c]) * factor) + constant[c]);
  });
}

template <typename T>
void accumulate(const T* RESTRICT x, int64_t count, int64_t period, const T* RESTRICT q,
                const T* RESTRICT center, T factor, const T* RESTRICT constant, T* RESTRICT out) {
  if (period == 1) {
    const T b = q[0], middle = center[0], base = constant[0];
    for (int64_t k = 0; k < count; ++k) out[k] += b * ((x[k] - middle) * factor) + base;
    return;
  }
  for_periods(count, period, [&](int64_t at, int64_t values) {
    for (int64_t c = 0; c < values; ++c)
      out[at + c] += q[c] * ((x[at + c] - center[c]) * factor) + constant[c];
  });
}

// Sums over samples, `Count` of each channel: add_lane(sums, at, c) adds the values from `at` on,
// whose constants are from `c` on, to vectors of sums; add_one the same for one value.

/// One channel: four vectors of partial sums.
template <int Count, typename AddLane, typename AddOne>
inline void sum_run(int64_t count, double* const (&sums)[Count], const AddLane& add_lane,
                    const AddOne& add_one) {
  Lane part[4][Count] = {};
  int64_t k = 0;
  for (; k + 4 * lanes <= count; k += 4 * lanes)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) add_lane(part[j], k + j * lanes, 0);
  double rest[Count] = {};
  for (; k < count; ++k) add_one(rest, k, 0);
  for (int i = 0; i < Count; ++i)
    *sums[i] += total((part[0][i] + part[1][i]) + (part[2][i] + part[3][i])) + rest[i];
}

/// Many channels: the sums are loaded and stored for each sample, which costs less than reading the
/// data in any order but its own.
template <int Count, typename AddLane, typename AddOne>
inline void sum_periods(int64_t count, int64_t period, double* const (&sums)[Count],
                        const AddLane& add_lane, const AddOne& add_one) {
  for_periods(count, period, [&](int64_t start, int64_t values) {
    int64_t c = 0;
    for (; c + lanes <= values; c += lanes) {
      Lane part[Count];
      for (int i = 0; i < Count; ++i) part[i] = load(sums[i] + c);
      add_lane(part, start + c, c);
      for (int i = 0; i < Count; ++i) store(sums[i] + c, part[i]);
    }
    for (; c < values; ++c) {
      double part[Count] = {};
      add_one(part, start + c, c);
      for (int i = 0; i < Count; ++i) sums[i][c] += part[i];
    }
  });
}

template <int Count, typename AddLane, typename AddOne>
inline void sum_values(int64_t count, int64_t period, double* const (&sums)[Count],
                       const AddLane& add_lane, const AddOne& add_one) {
  if (period == 1)
    sum_run(count, sums, add_lane, add_one);
  else
    sum_periods(count, period, sums, add_lane, add_one);
}

/// The constants of `lanes` values from c on: the same one for all in a run of one channel.
template <typename T>
inline Lane constants(const T* values, int64_t period, int64_t c) {
  return period == 1 ? Lane{} + static_cast<double>(values[0]) : load(values + c);
}

template <typename T>
void sum(const T* RESTRICT in, int64_t count, int64_t period, double* RESTRICT sum) {
  double* const sums[1] = {sum};
  sum_values(
      count, period, sums, [&](Lane* part, int64_t at, int64_t) { part[0] += load(in + at); },
      [&](double* part, int64_t at, int64_t) { part[0] += static_cast<double>(in[at]); });
}

template <typename T>
void moments(const T* RESTRICT in, int64_t count, int64_t period, const T* RESTRICT shift,
             double* RESTRICT sum, double* RESTRICT square) {
  double* const sums[2] = {sum, square};
  sum_values(
      count, period, sums,
      [&](Lane* part, int64_t at, int64_t c) {
        const Lane d = load(in + at) - constants(shift, period, c);
        part[0] += d;
        part[1] += d * d;
      },
      [&](double* part, int64_t at, int64_t c) {
        const double d = static_cast<double>(in[at]) - shift[c];
        part[0] += d;
        part[1] += d * d;
      });
}

template <typename T>
void products(const T* RESTRICT g, const T* RESTRICT x, int64_t count, int64_t period,
              const T* RESTRICT center, double* RESTRICT sum, double* RESTRICT product) {
  double* const sums[2] = {sum, product};
  sum_values(
      count, period, sums,
      [&](Lane* part, int64_t at, int64_t c) {
        const Lane value = load(g + at);
        part[0] += value;
        part[1] += value * (load(x + at) - constants(center, period, c));
      },
      [&](double* part, int64_t at, int64_t c) {
        const double value = g[at];
        part[0] += value;
        part[1] += value * (static_cast<double>(x[at]) - center[c]);
      });
}

// --------------------------------------------------------------------------------------- panels

/// Rows are asked for so far ahead: where they are far apart, they come in leaps that the processor
/// does not foresee.
constexpr int64_t ahead = 32;

/// A vector of T as wide as a Lane.
template <typename T>
struct Wide {
  typedef T type __attribute__((vector_size(8 * lanes), aligned(sizeof(T)), may_alias));
  static constexpr int count = 8 * lanes / sizeof(T);
};

/// to(from): values of `parts` runs behind each other, and zeros up to a multiple of `unit`.
template <typename T, typename S, typename Convert>
inline void pack_run(const T* RESTRICT in, int64_t parts, int64_t apart, int64_t samples, int unit,
                     S* RESTRICT out, const Convert& convert) {
  int64_t at = 0;
  for (int64_t part = 0; part < parts; ++part, in += apart, at += samples)
    for (int64_t k = 0; k < samples; ++k) out[at + k] = convert(in[k]);
  for (; at % unit != 0; ++at) out[at] = 0;
}

template <typename T>
void pack_channels(const T* in, int64_t parts, int64_t apart, int64_t samples, int64_t width,
                   int64_t from_stride, const T* center, T factor, T* out, int64_t stride) {
  for (int64_t c = 0; c < width; ++c) {
    const T middle = center[c];
    pack_run(in + c * from_stride, parts, apart, samples, Wide<T>::count, out + c * stride,
             [&](T value) { return (value - middle) * factor; });
  }
}

template <typename T>
void pack_samples(const T* RESTRICT in, int64_t samples, int64_t from_stride, int64_t width,
                  const T* RESTRICT center, T factor, T* RESTRICT out, int64_t stride) {
  for (int64_t s = 0; s < samples; ++s, in += from_stride, out += stride) {
    __builtin_prefetch(in + ahead * from_stride);
    for (int64_t c = 0; c < width; ++c) out[c] = (in[c] - center[c]) * factor;
  }
}

template <typename T>
void unpack(const T* RESTRICT in, int64_t rows, int64_t stride, int64_t width, T* RESTRICT out,
            int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r, in += stride, out += to_stride)
    for (int64_t k = 0; k < width; ++k) out[k] = in[k];
}

/// `Tall` rows from r on of `Across` vectors of columns, held in registers; rows beyond the last
/// are the last once more.
template <typename T, int Tall, int Across>
void multiply_part(int64_t r, int64_t rows, int64_t depth, int64_t count,
                   const PanelProduct<T>* products, int64_t column, const T* of_row,
                   const T* of_column, T* out, int64_t stride) {
  using Vector = typename Wide<T>::type;
  constexpr int64_t unit = Wide<T>::count;
  Vector part[Tall][Across];
  for (int i = 0; i < Tall; ++i)
    for (int j = 0; j < Across; ++j)
      part[i][j] = of_row ? Vector{} + of_row[least(r + i, rows - 1)]
                          : *reinterpret_cast<const Vector*>(of_column + column + j * unit);
  for (int64_t p = 0; p < count; ++p) {
    const T* left[Tall];
    for (int i = 0; i < Tall; ++i) {
      left[i] = products[p].left + least(r + i, rows - 1) * products[p].left_stride;
      __builtin_prefetch(left[i] + ahead * products[p].left_stride);
    }
    const T* right = products[p].right + column;
    for (int64_t k = 0; k < depth; ++k, right += products[p].right_stride) {
      Vector with[Across];
#pragma GCC unroll 4
      for (int j = 0; j < Across; ++j) with[j] = *reinterpret_cast<const Vector*>(right + j * unit);
#pragma GCC unroll 12
      for (int i = 0; i < Tall; ++i) {
        const T factor = left[i][k * products[p].left_step];
#pragma GCC unroll 4
        for (int j = 0; j < Across; ++j) part[i][j] += factor * with[j];
      }
    }
  }
  for (int i = 0; i < Tall && r + i < rows; ++i)
    for (int j = 0; j < Across; ++j)
      *reinterpret_cast<Vector*>(out + (r + i) * stride + column + j * unit) = part[i][j];
}

template <typename T, int Tall, int Across>
void multiply_columns(int64_t rows, int64_t depth, int64_t count, const PanelProduct<T>* products,
                      int64_t column, const T* of_row, const T* of_column, T* out, int64_t stride) {
  for (int64_t r = 0; r < rows; r += Tall)
    multiply_part<T, Tall, Across>(r, rows, depth, count, products, column, of_row, of_column, out,
                                   stride);
}

template <typename T>
void multiply(int64_t rows, int64_t columns, int64_t depth, int64_t count,
              const PanelProduct<T>* products, const T* of_row, const T* of_column, T* out,
              int64_t stride) {
  constexpr int64_t unit = Wide<T>::count;
  for (int64_t column = 0, left; (left = (columns - column) / unit) > 0;) {
    if (left == 1) {
      multiply_columns<T, 8, 1>(rows, depth, count, products, column, of_row, of_column, out,
                                stride);
      column += unit;
    } else if (left == 2 || left == 4) {
      multiply_columns<T, 4, 2>(rows, depth, count, products, column, of_row, of_column, out,
                                stride);
      column += 2 * unit;
    } else {
      multiply_columns<T, 4, 3>(rows, depth, count, products, column, of_row, of_column, out,
                                stride);
      column += 3 * unit;
    }
  }
}

/// Dot products of four rows with three, the edges repeated and dropped.
template <typename T>
void row_products(const T* first, int64_t first_stride, const T* second, int64_t second_stride,
                  int64_t count, int64_t width, double* square) {
  using Vector = typename Wide<T>::type;
  constexpr int64_t unit = Wide<T>::count;
  constexpr int tall = 4;
  for (int64_t i = 0; i < width; i += tall)
    for (int64_t j = 0; j < width; j += wide) {
      const T *a[tall], *b[wide];
      for (int k = 0; k < tall; ++k) a[k] = first + least(i + k, width - 1) * first_stride;
      for (int k = 0; k < wide; ++k) b[k] = second + least(j + k, width - 1) * second_stride;
      Vector part[tall][wide] = {};
      for (int64_t s = 0; s < count; s += unit) {
        Vector right[wide];
#pragma GCC unroll 4
        for (int l = 0; l < wide; ++l) right[l] = *reinterpret_cast<const Vector*>(b[l] + s);
#pragma GCC unroll 4
        for (int k = 0; k < tall; ++k) {
          const Vector left = *reinterpret_cast<const Vector*>(a[k] + s);
#pragma GCC unroll 4
          for (int l = 0; l < wide; ++l) part[k][l] += left * right[l];
        }
      }
#pragma GCC unroll 4
      for (int k = 0; k < tall; ++k)
#pragma GCC unroll 4
        for (int l = 0; l < wide; ++l) {
          if (i + k >= width || j + l >= width) continue;
          T sum[unit];
          *reinterpret_cast<Vector*>(sum) = part[k][l];
          for (int64_t half = unit / 2; half > 0; half /= 2)
            for (int64_t m = 0; m < half; ++m) sum[m] += sum[m + half];
          square[(i + k) * width + j + l] += sum[0];
        }
    }
}

// ------------------------------------------------------------------------------------- covariance

template <typename T>
void pack_panels(const T* RESTRICT in, int64_t samples, int64_t stride, int64_t width,
                 const double* RESTRICT shift, double* RESTRICT panels, double* RESTRICT sum) {
  const int64_t apart = panel_stride(samples, lanes);
  for (int64_t s = 0; s < samples; ++s, in += stride, panels += lanes) {
    __builtin_prefetch(in + ahead * stride);
    int64_t c = 0;
    double* to = panels;
    for (; c + lanes <= width; c += lanes, to += apart) {
      const Lane d = load(in + c) - load(shift + c);
      store(to, d);
      store(sum + c, load(sum + c) + d);
    }
    for (int64_t k = 0; c < width; ++c, ++k) {
      to[k] = static_cast<double>(in[c]) - shift[c];
      sum[c] += to[k];
    }
  }
}

template <typename T>
void pack_rows(const T* in, int64_t parts, int64_t apart, int64_t samples, int64_t width,
               int64_t from_stride, const double* shift, double* rows, int64_t stride,
               double* sum) {
  for (int64_t c = 0; c < width; ++c) {
    double* const row = rows + c * stride;
    const double base = shift[c];
    pack_run(in + c * from_stride, parts, apart, samples, lanes, row,
             [&](T value) { return static_cast<double>(value) - base; });
    Lane part = {};
    for (int64_t k = 0; k < parts * samples; k += lanes) part += load(row + k);
    sum[c] += total(part);
  }
}

/// A tile of `lanes` rows and `Across` vectors, held in registers over all samples.
template <int Across>
void multiply_tile(const double* RESTRICT a, const double* RESTRICT b, int64_t apart,
                   int64_t samples, double* RESTRICT square, int64_t row) {
  Lane part[lanes][Across] = {};
  for (int64_t s = 0; s < samples; ++s, a += lanes, b += lanes) {
    Lane right[Across];
#pragma GCC unroll 8
    for (int j = 0; j < Across; ++j) right[j] = load(b + j * apart);
#pragma GCC unroll 8
    for (int i = 0; i < lanes; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < Across; ++j) part[i][j] += a[i] * right[j];
  }
#pragma GCC unroll 8
  for (int i = 0; i < lanes; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < Across; ++j) {
      double* to = square + i * row + j * lanes;
      store(to, load(to) + part[i][j]);
    }
}

void multiply_panels(const double* panels, int64_t samples, int64_t count, double* square) {
  const int64_t apart = panel_stride(samples, lanes), row = count * lanes;
  // The columns outside: three panels stay in the first cache while the others pass by.
  for (int64_t j = 0; j < count; j += wide)
    for (int64_t i = j; i < count; ++i) {
      const double *a = panels + i * apart, *b = panels + j * apart;
      double* to = square + i * lanes * row + j * lanes;
      const int64_t left = i + 1 - j;
      if (left >= 3)
        multiply_tile<3>(a, b, apart, samples, to, row);
      else if (left == 2)
        multiply_tile<2>(a, b, apart, samples, to, row);
      else
        multiply_tile<1>(a, b, apart, samples, to, row);
    }
}

/// Dot products of four rows with three, the edges repeated and dropped.
void multiply_rows(const double* rows, int64_t count, int64_t stride, int64_t width,
                   double* square) {
  constexpr int tall = 4;
  for (int64_t i = 0; i < width; i += tall)
    for (int64_t j = 0; j < least(i + tall, width); j += wide) {
      const double *a[tall], *b[wide];
      for (int k = 0; k < tall; ++k) a[k] = rows + least(i + k, width - 1) * stride;
      for (int k = 0; k < wide; ++k) b[k] = rows + least(j + k, width - 1) * stride;
      Lane part[tall][wide] = {};
      for (int64_t s = 0; s < count; s += lanes) {
        Lane right[wide];
#pragma GCC unroll 4
        for (int l = 0; l < wide; ++l) right[l] = load(b[l] + s);
#pragma GCC unroll 4
        for (int k = 0; k < tall; ++k) {
          const Lane left = load(a[k] + s);
#pragma GCC unroll 4
          for (int l = 0; l < wide; ++l) part[k][l] += left * right[l];
        }
      }
#pragma GCC unroll 4
      for (int k = 0; k < tall; ++k)
#pragma GCC unroll 4
        for (int l = 0; l < wide; ++l)
          if (i + k < width && j + l < width) square[(i + k) * width + j + l] += total(part[k][l]);
    }
}

template <typename T>
constexpr Loops<T> all = {fill<T>,        center<T>,        sum<T>,          moments<T>,
                          transform<T>,   products<T>,      gradient<T>,     accumulate<T>,
                          Wide<T>::count, pack_channels<T>, pack_samples<T>, unpack<T>,
                          multiply<T>,    row_products<T>,  pack_panels<T>,  pack_rows<T>};

}  // namespace

extern const Loops<float> of_float;
extern const Loops<double> of_double;
extern const CovarianceLoops of_covariance;
const Loops<float> of_float = all<float>;
const Loops<double> of_double = all<double>;
const CovarianceLoops of_covariance = {lanes, multiply_panels, multiply_rows};

}  // namespace orthobatch::kernels::ORTHOBATCH_LOOPS
