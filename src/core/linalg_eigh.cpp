// What dsyevd does, in its steps, so that threads can share them:
//
//   A = Q T Qᵀ        dsytrd: one thread, half of it bound by memory
//   T = S Λ Sᵀ        Cuppen's divide and conquer: leaves by dstedc, one a thread; then the merges
//                     (dlaed1, with deflation by LAPACK's dlaed2 and roots by its dlaed4)
//   U = Q S           as dormtr, columns of S shared out
//
// Columns of a power of two of doubles fall on the same lines of the cache: all have a few more
// (dormtr alone takes half the time for it at N = 512). OpenBLAS takes a lock in every call: the
// threads make few, on large parts.

#include "core/linalg_eigh.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.h"

extern "C" {
void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
            const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
            const double* beta, double* c, const int* ldc);
void dsytrd_(const char* uplo, const int* n, double* a, const int* lda, double* d, double* e,
             double* tau, double* work, const int* lwork, int* info);
void dstedc_(const char* compz, const int* n, double* d, double* e, double* z, const int* ldz,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info);
void dlaed2_(int* k, const int* n, const int* n1, double* d, double* q, const int* ldq, int* indxq,
             double* rho, double* z, double* dlamda, double* w, double* q2, int* indx, int* indxc,
             int* indxp, int* coltyp, int* info);
void dlaed4_(const int* n, const int* i, const double* d, const double* z, double* delta,
             const double* rho, double* dlam, int* info);
}

namespace orthobatch::core::linalg {
namespace {

constexpr int largest_leaf = 128;  // of the divide and conquer
constexpr int panel = 32;          // reflectors applied at once
constexpr int strip = 128;         // columns of a product that a thread takes
constexpr int few = 32;            // columns of work without products

/// Column-major, in memory of another's.
struct Columns {
  double* data;
  int ld;

  double* at(int64_t row, int64_t col) const { return data + col * ld + row; }
  double* column(int64_t col) const { return at(0, col); }
};

/// C ← alpha op(A) B + beta C with op(A) m×k.
void product(const char* op, int m, int n, int k, double alpha, const double* a, int lda,
             const double* b, int ldb, double beta, double* c, int ldc) {
  dgemm_(op, "N", &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}

/// A part of the tridiagonal matrix: its first row, its size, and the order that sorts its
/// eigenvalues, from 1 as LAPACK counts.
struct Part {
  int first, size;
  std::vector<int> ascending;
};

/// The first of several calls' infos that is not 0, or 0.
int first_failure(const std::vector<int>& infos) {
  for (const int info : infos)
    if (info != 0) return info;
  return 0;
}

/// Parts of at most `largest_leaf`, a power of two of them.
std::vector<Part> leaves_of(int n) {
  int64_t count = 1;
  while ((n + count - 1) / count > largest_leaf) count *= 2;
  std::vector<Part> out;
  for (int64_t k = 0; k < count; ++k) {
    const int first = static_cast<int>(k * n / count), end = static_cast<int>((k + 1) * n / count);
    out.push_back({first, end - first, {}});
  }
  return out;
}

/// The order of a part's eigenvalues, which start at d.
void sort(Part& part, const double* d) {
  part.ascending.resize(part.size);
  std::iota(part.ascending.begin(), part.ascending.end(), 1);
  std::stable_sort(part.ascending.begin(), part.ascending.end(),
                   [&](int a, int b) { return d[a - 1] < d[b - 1]; });
}

int solve_leaf(Part& part, double* d, double* e, const Columns& q) {
  const int n = part.size, lwork = 1 + 4 * n + n * n, liwork = 3 + 5 * n;
  Vector work(lwork);
  std::vector<int> iwork(liwork);
  int info = 0;
  dstedc_("I", &n, d + part.first, e + part.first, q.at(part.first, part.first), &q.ld, work.data(),
          &lwork, iwork.data(), &liwork, &info);
  sort(part, d + part.first);
  return info;
}

/// The roots and eigenvectors of diag(poles) + rho z zᵀ, k×k; the vectors of unit length in the
/// columns of s, their rows in the order of `order`, from 1 (dlaed3).
int secular_vectors(int k, double rho, const double* poles, const double* z, const int* order,
                    double* roots, const Columns& s) {
  std::vector<int> infos(k);
  // Column j becomes poles − root j, accurate where the difference of the two is not.
  parallel_ranges(k, few, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const int index = static_cast<int>(j) + 1;
      dlaed4_(&k, &index, poles, z, s.column(j), &rho, roots + j, &infos[j]);
    }
  });
  if (const int info = first_failure(infos)) return info;
  if (k == 1) return 0;
  if (k == 2) {  // dlaed4 has given the vectors themselves
    for (int j = 0; j < 2; ++j) {
      const double both[] = {*s.at(0, j), *s.at(1, j)};
      for (int i = 0; i < 2; ++i) *s.at(i, j) = both[order[i] - 1];
    }
    return 0;
  }
  // The z whose roots are exactly these (Gu and Eisenstat): its vectors are orthogonal.
  Vector exact(k);
  parallel_ranges(k, few, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) exact[i] = *s.at(i, i);
    for (int j = 0; j < k; ++j) {
      const double* difference = s.column(j);
      const auto multiply = [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) exact[i] *= difference[i] / (poles[i] - poles[j]);
      };
      multiply(begin, std::min<int64_t>(end, j));
      multiply(std::max<int64_t>(begin, j + 1), end);
    }
    for (int64_t i = begin; i < end; ++i) exact[i] = std::copysign(std::sqrt(-exact[i]), z[i]);
  });
  parallel_ranges(k, few, [&](int64_t begin, int64_t end) {
    Vector v(k);
    for (int64_t j = begin; j < end; ++j) {
      double* column = s.column(j);
      double squares = 0;
      for (int i = 0; i < k; ++i) v[i] = exact[i] / column[i];
      for (int i = 0; i < k; ++i) squares += v[i] * v[i];
      const double length = std::sqrt(squares);
      for (int i = 0; i < k; ++i) v[i] /= length;
      for (int i = 0; i < k; ++i) column[i] = v[order[i] - 1];
    }
  });
  return 0;
}

/// Two neighbours become one, with rho between them (dlaed1). s is memory like q's, q2 of the
/// square of the size of both.
int merge(Part& left, const Part& right, double rho, double* d, const Columns& q, const Columns& s,
          double* q2) {
  const int n1 = left.size, n2 = right.size, n = n1 + n2, first = left.first;
  const Columns both = {q.at(first, first), q.ld}, vectors = {s.at(first, first), s.ld};
  d += first;
  left.ascending.insert(left.ascending.end(), right.ascending.begin(), right.ascending.end());
  left.size = n;

  Vector z(n), poles(n), w(n);
  for (int j = 0; j < n; ++j) z[j] = *both.at(j < n1 ? n1 - 1 : n1, j);
  std::vector<int> indx(n), indxc(n), indxp(n), type(n);
  int k = 0, info = 0;  // k are left when those are set aside that the coupling does not change
  dlaed2_(&k, &n, &n1, d, both.data, &both.ld, left.ascending.data(), &rho, z.data(), poles.data(),
          w.data(), q2, indx.data(), indxc.data(), indxp.data(), type.data(), &info);
  if (info != 0) return info;
  if (k == 0) {
    sort(left, d);
    return 0;
  }
  info = secular_vectors(k, rho, poles.data(), w.data(), indxc.data(), d, vectors);
  if (info != 0) return info;

  // Old vectors, in q2, times new ones. `type` counts those in the left rows alone, in both, in
  // the right alone.
  const int above = type[0] + type[1], below = type[1] + type[2];
  const double* q2_below = q2 + static_cast<int64_t>(n1) * above;
  parallel_ranges(k, strip, [&](int64_t begin, int64_t end) {
    const int columns = static_cast<int>(end - begin);
    product("N", n1, columns, above, 1, q2, n1, vectors.at(0, begin), s.ld, 0, both.column(begin),
            q.ld);
    product("N", n2, columns, below, 1, q2_below, n2, vectors.at(type[0], begin), s.ld, 0,
            both.at(n1, begin), q.ld);
  });
  sort(left, d);
  return 0;
}

/// Eigenvalues into d, vectors into the columns of q, and the order that sorts both, from 1.
int divide_and_conquer(int n, double* d, double* e, const Columns& q, const Columns& s, double* q2,
                       std::vector<int>& ascending) {
  parallel_ranges(n, strip, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) std::fill_n(q.column(j), n, 0.0);
  });
  std::vector<Part> parts = leaves_of(n);
  // At a cut T = diag(T₁, T₂) + rho v vᵀ, v = (0 … 1, ±1 … 0).
  Vector rho(n);
  for (size_t p = 1; p < parts.size(); ++p) {
    const int cut = parts[p].first;
    rho[cut] = e[cut - 1];
    d[cut - 1] -= std::abs(rho[cut]);
    d[cut] -= std::abs(rho[cut]);
  }
  std::vector<int> infos(parts.size());
  parallel_for(parts.size(), [&](int64_t p) { infos[p] = solve_leaf(parts[p], d, e, q); });
  while (parts.size() > 1 && first_failure(infos) == 0) {
    std::vector<Part> merged(parts.size() / 2);
    parallel_for(merged.size(), [&](int64_t p) {
      Part &left = parts[2 * p], &right = parts[2 * p + 1];
      const int64_t first = left.first;
      infos[p] = merge(left, right, rho[right.first], d, q, s, q2 + first * n);
      merged[p] = std::move(left);
    });
    parts = std::move(merged);
  }
  ascending = std::move(parts[0].ascending);
  return first_failure(infos);
}

/// S ← Q S with the reflectors that dsytrd left below the diagonal of a (dormtr). The rest of a is
/// lost; vt is memory like a's.
void apply_reflectors(int n, const Columns& a, const Vector& tau, const Columns& vt,
                      const Columns& s) {
  // A panel's reflectors H₁ … H_k = I − V T Vᵀ. Its V becomes explicit, and V T is kept.
  const int reflectors = n - 1, panels = (reflectors + panel - 1) / panel;
  parallel_for(panels, [&](int64_t p) {
    const int first = static_cast<int>(p) * panel, rows = n - 1 - first;
    const int count = std::min(panel, reflectors - first);
    const Columns V = {a.at(first + 1, first), a.ld};
    for (int k = 0; k < count; ++k) {
      std::fill_n(V.column(k), k, 0.0);
      *V.at(k, k) = 1;
    }
    double gram[panel * panel] = {}, t[panel * panel] = {};
    product("T", count, count, rows, 1, V.data, V.ld, V.data, V.ld, 0, gram, panel);
    for (int k = 0; k < count; ++k) {  // dlarft
      const double scale = tau[first + k];
      for (int j = 0; j < k; ++j)
        for (int i = 0; i <= j; ++i)
          t[k * panel + i] -= scale * t[j * panel + i] * gram[k * panel + j];
      t[k * panel + k] = scale;
    }
    product("N", rows, count, count, 1, V.data, V.ld, t, panel, 0, vt.at(first + 1, first), vt.ld);
  });
  parallel_ranges(n, strip, [&](int64_t begin, int64_t end) {
    const int columns = static_cast<int>(end - begin);
    double inner[panel * strip];  // Vᵀ S
    for (int p = panels; p-- > 0;) {
      const int first = p * panel, rows = n - 1 - first,
                count = std::min(panel, reflectors - first);
      double* below = s.at(first + 1, begin);
      product("T", count, columns, rows, 1, a.at(first + 1, first), a.ld, below, s.ld, 0, inner,
              panel);
      product("N", rows, columns, count, -1, vt.at(first + 1, first), vt.ld, inner, panel, 1, below,
              s.ld);
    }
  });
}

}  // namespace

int eigh_on_threads(const Matrix& matrix, SymmetricEigen& out) {
  const int n = static_cast<int>(matrix.rows()), ld = n + 8;
  // Kept from call to call; bound here, as in the loops below the name means another thread's.
  static thread_local Vector kept;
  const size_t size = static_cast<size_t>(ld) * n;
  if (kept.size() < 4 * size) kept.resize(4 * size);
  double* memory = kept.data();
  const Columns a = {memory, ld}, q = {memory + size, ld}, s = {memory + 2 * size, ld},
                spare = {memory + 3 * size, ld};

  for (int j = 0; j < n; ++j)
    std::copy_n(matrix.data() + static_cast<int64_t>(j) * n, n, a.column(j));
  Vector d(n), e(n), tau(n);
  const int lwork = n * panel;
  int info = 0;
  dsytrd_("L", &n, a.data, &a.ld, d.data(), e.data(), tau.data(), s.data, &lwork, &info);
  if (info != 0) return info;

  // The tolerances of the deflation are for entries of about 1.
  double scale = 0;
  for (int k = 0; k < n; ++k) scale = std::max({scale, std::abs(d[k]), std::abs(e[k])});
  for (double& x : d) x /= scale;
  for (double& x : e) x /= scale;
  std::vector<int> ascending;
  info = divide_and_conquer(n, d.data(), e.data(), q, s, spare.data, ascending);
  if (info != 0) return info;

  out.lambda.resize(n);
  for (int k = 0; k < n; ++k) out.lambda[k] = scale * d[ascending[n - 1 - k] - 1];
  parallel_ranges(n, strip, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      std::copy_n(q.column(ascending[n - 1 - k] - 1), n, s.column(k));
  });
  apply_reflectors(n, a, tau, spare, s);
  out.U = Matrix::uninitialized(n, n);
  transpose_into(out.U, s.data, s.ld);
  return 0;
}

}  // namespace orthobatch::core::linalg
