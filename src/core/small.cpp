// Compiled several times with different vector units (ORTHOBATCH_LOOPS names the set). Nothing of
// the standard library may be instantiated here: the linker might take that code, which needs these
// units, for the rest of the program.

#include "core/small.h"

#define RESTRICT __restrict__

namespace orthobatch::core::ORTHOBATCH_LOOPS {
namespace {

#ifndef ORTHOBATCH_LANES
#define ORTHOBATCH_LANES 4
#endif
constexpr int64_t lanes = ORTHOBATCH_LANES;  // doubles in a vector
constexpr int64_t most = most_small;

typedef double Lane __attribute__((vector_size(8 * ORTHOBATCH_LANES), aligned(8), may_alias));

inline Lane load(const double* p) { return *reinterpret_cast<const Lane*>(p); }
inline void store(double* p, const Lane& v) { *reinterpret_cast<Lane*>(p) = v; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t whole(int64_t n) { return (n + lanes - 1) / lanes * lanes; }

// Rows of `width` values, a multiple of `lanes`; what is beyond n is zero.

/// y += s x
inline void add(int64_t width, double s, const double* x, double* y) {
  for (int64_t j = 0; j < width; j += lanes) store(y + j, load(y + j) + s * load(x + j));
}

/// Σ x y
inline double dot(int64_t width, const double* x, const double* y) {
  Lane sum = {};
  for (int64_t j = 0; j < width; j += lanes) sum += load(x + j) * load(y + j);
  double out = 0;
  for (int64_t k = 0; k < lanes; ++k) out += sum[k];
  return out;
}

inline void clear(int64_t count, double* x) {
  for (int64_t k = 0; k < count; ++k) x[k] = 0;
}

/// A = Q T Qᵀ with T tridiagonal, `d` its diagonal and `e[k]` beside d[k] and d[k+1]. The rows of
/// `Q` become the columns of that Q. A is used up.
void tridiagonalize(int64_t n, int64_t width, double* RESTRICT a, double* RESTRICT d,
                    double* RESTRICT e, double* RESTRICT Q) {
  double v[most * most], beta[most], p[most], transposed[most * most];
  for (int64_t k = 0; k + 2 < n; ++k) {
    // The reflection I − β v vᵀ that leaves of row k, behind its diagonal, one value.
    double* const x = v + k * width;
    for (int64_t j = 0; j < width; ++j) x[j] = j > k + 1 ? a[k * width + j] : 0;
    const double first = a[k * width + k + 1], rest = dot(width, x, x);
    beta[k] = 0;
    e[k] = first;
    if (rest == 0) continue;
    const double square = first * first + rest, norm = __builtin_sqrt(square);
    e[k] = first > 0 ? -norm : norm;
    x[k + 1] = first - e[k];
    beta[k] = 1 / (square - first * e[k]);
    // A ← A − v wᵀ − w vᵀ with w = β A v − ½ β (β vᵀ A v) v
    clear(width, p);
    for (int64_t j = k + 1; j < n; ++j) add(width, beta[k] * x[j], a + j * width, p);
    clear(k + 1, p);
    add(width, -0.5 * beta[k] * dot(width, p, x), x, p);
    for (int64_t j = k + 1; j < n; ++j) {
      add(width, -x[j], p, a + j * width);
      add(width, -p[j], x, a + j * width);
    }
  }
  for (int64_t k = 0; k < n; ++k) d[k] = a[k * width + k];
  if (n > 1) e[n - 2] = a[(n - 2) * width + n - 1];
  e[n - 1] = 0;

  clear(n * width, transposed);
  for (int64_t k = 0; k < n; ++k) transposed[k * width + k] = 1;
  for (int64_t k = n - 3; k >= 0; --k) {
    if (beta[k] == 0) continue;
    const double* const x = v + k * width;
    clear(width, p);
    for (int64_t j = k + 1; j < n; ++j) add(width, x[j], transposed + j * width, p);
    for (int64_t j = k + 1; j < n; ++j) add(width, -beta[k] * x[j], p, transposed + j * width);
  }
  clear(n * width, Q);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) Q[j * width + i] = transposed[i * width + j];
}

/// Rows x and y turned into c x − s y and s x + c y.
inline void rotate(int64_t width, double c, double s, double* RESTRICT x, double* RESTRICT y) {
  for (int64_t j = 0; j < width; j += lanes) {
    const Lane left = load(x + j), right = load(y + j);
    store(x + j, c * left - s * right);
    store(y + j, s * left + c * right);
  }
}

/// Implicit QL steps with Wilkinson's shift until `e` is gone; `d` becomes the eigenvalues. The rows
/// of Z turn with it.
bool diagonalize(int64_t n, int64_t width, double* RESTRICT d, double* RESTRICT e,
                 double* RESTRICT Z) {
  constexpr int most_steps = 60;  // for one eigenvalue; two are usual
  for (int64_t l = 0; l < n; ++l)
    for (int steps = 0;; ++steps) {
      int64_t m = l;
      for (; m + 1 < n; ++m) {
        const double size = __builtin_fabs(d[m]) + __builtin_fabs(d[m + 1]);
        if (__builtin_fabs(e[m]) + size == size) break;
      }
      if (m == l) break;
      if (steps == most_steps) return false;
      double g = (d[l + 1] - d[l]) / (2 * e[l]), r = __builtin_sqrt(g * g + 1);
      g = d[m] - d[l] + e[l] / (g + (g > 0 ? r : -r));
      double c = 1, s = 1, p = 0;
      int64_t i = m - 1;
      for (; i >= l; --i) {
        const double f = s * e[i], b = c * e[i];
        e[i + 1] = r = __builtin_sqrt(f * f + g * g);
        if (r == 0) {  // too small for its square: the matrix falls apart here
          d[i + 1] -= p;
          e[m] = 0;
          break;
        }
        const double inverse = 1 / r;
        s = f * inverse;
        c = g * inverse;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
        rotate(width, c, s, Z + i * width, Z + (i + 1) * width);
      }
      if (i >= l) continue;
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  return true;
}

bool eigh(int64_t n, const double* a, double* lambda, double* U) {
  const int64_t width = whole(n);
  double work[most * most], Z[most * most], d[most], e[most];
  // Entries of about 1, by a power of two, so that squares neither overflow nor vanish.
  double largest = 0;
  for (int64_t k = 0; k < n * n; ++k) {
    const double size = __builtin_fabs(a[k]);
    if (!(size <= 1.7e308)) return false;  // NaN too
    largest = size > largest ? size : largest;
  }
  int exponent = 0;
  __builtin_frexp(largest, &exponent);
  // Of the smallest numbers the inverse would overflow: they may stay small.
  exponent = exponent < -1000 ? -1000 : exponent;
  const double down = __builtin_ldexp(1.0, -exponent), up = __builtin_ldexp(1.0, exponent - 1);
  clear(n * width, work);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) work[i * width + j] = a[i * n + j] * down;
  tridiagonalize(n, width, work, d, e, Z);
  if (!diagonalize(n, width, d, e, Z)) return false;
  int64_t order[most];
  for (int64_t k = 0; k < n; ++k) {
    int64_t at = k;
    for (; at > 0 && d[order[at - 1]] < d[k]; --at) order[at] = order[at - 1];
    order[at] = k;
  }
  for (int64_t k = 0; k < n; ++k) {
    lambda[k] = 2 * (d[order[k]] * up);
    const double* const row = Z + order[k] * width;
    for (int64_t i = 0; i < n; ++i) U[i * n + k] = row[i];
  }
  return true;
}

void multiply(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_col,
              const double* b, int64_t b_row, int64_t b_col, double* c) {
  constexpr int64_t tall = 4, wide = 2;
  const int64_t width = (n + wide * lanes - 1) / (wide * lanes) * (wide * lanes);
  double right[most * (most + wide * lanes)];
  for (int64_t l = 0; l < k; ++l) {
    double* const row = right + l * width;
    for (int64_t j = 0; j < n; ++j) row[j] = b[l * b_row + j * b_col];
    for (int64_t j = n; j < width; ++j) row[j] = 0;
  }
  for (int64_t i = 0; i < m; i += tall) {
    const double* left[tall];
    for (int64_t r = 0; r < tall; ++r) left[r] = a + least(i + r, m - 1) * a_row;
    for (int64_t j = 0; j < n; j += wide * lanes) {
      Lane part[tall][wide] = {};
      for (int64_t l = 0; l < k; ++l) {
        const double* const from = right + l * width + j;
        const Lane first = load(from), second = load(from + lanes);
#pragma GCC unroll 4
        for (int64_t r = 0; r < tall; ++r) {
          const double factor = left[r][l * a_col];
          part[r][0] += factor * first;
          part[r][1] += factor * second;
        }
      }
      for (int64_t r = 0; r < tall && i + r < m; ++r) {
        double* const to = c + (i + r) * n + j;
        for (int64_t q = 0; q < least(wide * lanes, n - j); ++q)
          to[q] = part[r][q / lanes][q % lanes];
      }
    }
  }
}

}  // namespace

extern const Small of_small;
const Small of_small = {eigh, multiply};

}  // namespace orthobatch::core::ORTHOBATCH_LOOPS
