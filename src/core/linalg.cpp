#include "core/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>

#include "base/processor.h"
#include "core/parallel.h"
#include "core/small.h"

#ifdef ORTHOBATCH_BLAS_onednn
#include <dnnl.h>
#endif

extern "C" {
void sgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);
void dgemm_(const char* transa, const char* transb, const int* m, const int* n, const int* k,
            const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
            const double* beta, double* c, const int* ldc);
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* ipiv, int* info);
void dgetrs_(const char* trans, const int* n, const int* nrhs, const double* a, const int* lda,
             const int* ipiv, double* b, const int* ldb, int* info);
// OpenBLAS only; absent from other implementations.
void openblas_set_num_threads(int count) __attribute__((weak));
int openblas_get_num_threads() __attribute__((weak));
}

namespace orthobatch::core::linalg {
namespace {

/// Keeps OpenBLAS on the calling thread while any of ours is inside it. Its thread pool spins: on
/// matrices this small, and under at::parallel_for, it costs more than it gives, and on a loaded
/// machine a hundred times more. The count is global there, so the first one in saves it and the
/// last one out puts it back.
class OnThisThread {
 public:
  OnThisThread() { enter(+1); }
  ~OnThisThread() { enter(-1); }
  OnThisThread(const OnThisThread&) = delete;
  OnThisThread& operator=(const OnThisThread&) = delete;

 private:
  static void enter(int step) {
    if (!openblas_set_num_threads || !openblas_get_num_threads) return;
    static std::mutex mutex;
    static int inside = 0, saved = 1;
    const std::lock_guard<std::mutex> lock(mutex);
    if (inside == 0) saved = openblas_get_num_threads();
    inside += step;
    if (saved > 1) openblas_set_num_threads(inside > 0 ? 1 : saved);
  }
};

char letter(Op op) { return op == Op::none ? 'N' : 'T'; }

/// `info` is LAPACK's, -1 where it was not LAPACK.
[[noreturn]] void fail(const char* routine, int64_t n, int info, const char* meaning) {
  const std::string size = std::to_string(n) + "x" + std::to_string(n);
  throw FactorizationError(
      std::string("[linalg::") + routine + "] " + meaning + " (matrix " + size +
      (info < 0 ? "" : ", LAPACK info " + std::to_string(info) + ", expected 0") + ")");
}

/// Workspaces are kept from call to call.
template <typename T>
void grow(std::vector<T>& workspace, size_t size) {
  if (workspace.size() < size) workspace.resize(size);
}

}  // namespace

// BLAS is column-major: the row-major product C = op(A) op(B) is Cᵀ = op(B)ᵀ op(A)ᵀ there.

void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
#ifdef ORTHOBATCH_BLAS_onednn
  const dnnl_status_t status =
      dnnl_sgemm(letter(op_a), letter(op_b), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (status != dnnl_success)
    throw std::runtime_error("[linalg::gemm] oneDNN's sgemm returned status " +
                             std::to_string(status) + ", expected 0");
#else
  const OnThisThread guard;
  const char ta = letter(op_a), tb = letter(op_b);
  const int im = static_cast<int>(m), in = static_cast<int>(n), ik = static_cast<int>(k);
  const int ia = static_cast<int>(lda), ib = static_cast<int>(ldb), ic = static_cast<int>(ldc);
  sgemm_(&tb, &ta, &in, &im, &ik, &alpha, b, &ib, a, &ia, &beta, c, &ic);
#endif
}

void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  const OnThisThread guard;
  const char ta = letter(op_a), tb = letter(op_b);
  const int in = static_cast<int>(n), ik = static_cast<int>(k);
  const int ia = static_cast<int>(lda), ib = static_cast<int>(ldb), ic = static_cast<int>(ldc);
  // Large ones in strips of rows, one a thread; within a pass over the data there is one thread.
  parallel_ranges(m, one_thread, [&](int64_t begin, int64_t end) {
    const int rows = static_cast<int>(end - begin);
    const double* left = a + begin * (op_a == Op::none ? lda : 1);
    dgemm_(&tb, &ta, &in, &rows, &ik, &alpha, b, &ib, left, &ia, &beta, c + begin * ldc, &ic);
  });
}

std::string products_library() {
#ifdef ORTHOBATCH_BLAS_onednn
  const dnnl_version_t* v = dnnl_version();
  return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch);
#elif defined(ORTHOBATCH_BLAS_torch)
  return "torch's BLAS";
#else
  return base::blas_core().library;
#endif
}

/// op(A) op(B)
static Matrix product(Op op_a, Op op_b, const Matrix& a, const Matrix& b) {
  const bool turned = op_a == Op::transpose, other = op_b == Op::transpose;
  const int64_t m = turned ? a.cols() : a.rows(), k = turned ? a.rows() : a.cols();
  Matrix c = Matrix::uninitialized(m, other ? b.rows() : b.cols());
  const int64_t n = c.cols();
  if (std::max({m, n, k}) <= most_small)
    small().multiply(m, n, k, a.data(), turned ? 1 : a.cols(), turned ? a.cols() : 1, b.data(),
                     other ? 1 : n, other ? k : 1, c.data());
  else
    gemm(op_a, op_b, m, n, k, 1.0, a.data(), a.cols(), b.data(), b.cols(), 0.0, c.data(), n);
  return c;
}

Matrix matmul(const Matrix& a, const Matrix& b) { return product(Op::none, Op::none, a, b); }
Matrix matmul_tn(const Matrix& a, const Matrix& b) {
  return product(Op::transpose, Op::none, a, b);
}
Matrix matmul_nt(const Matrix& a, const Matrix& b) {
  return product(Op::none, Op::transpose, a, b);
}

/// C = op(A) op(B), of which the caller knows that it is symmetric.
static Matrix symmetric_product(Op op_a, Op op_b, const Matrix& a, const Matrix& b) {
  const int64_t n = op_a == Op::none ? a.rows() : a.cols();
  if (n <= one_thread) return product(op_a, op_b, a, b);
  const int64_t k = op_a == Op::none ? a.cols() : a.rows();
  Matrix c = Matrix::uninitialized(n, n);
  // Strips of rows up to the diagonal, the longest first; what is above it is their mirror.
  constexpr int64_t rows = 64;
  const OnThisThread guard;
  const int64_t strips = (n + rows - 1) / rows;
  parallel_for(strips, [&](int64_t s) {
    const int64_t begin = (strips - 1 - s) * rows, end = std::min(n, begin + rows);
    gemm(op_a, op_b, end - begin, end, k, 1.0, a.data() + begin * (op_a == Op::none ? k : 1),
         a.cols(), b.data(), b.cols(), 0.0, c.data() + begin * n, n);
  });
  mirror_lower(c);
  return c;
}

Matrix symmetric_matmul(const Matrix& a, const Matrix& b) {
  return symmetric_product(Op::none, Op::none, a, b);
}

Matrix symmetric_matmul_tn(const Matrix& a, const Matrix& b) {
  return symmetric_product(Op::transpose, Op::none, a, b);
}

Matrix symmetric_matmul_nt(const Matrix& a, const Matrix& b) {
  return symmetric_product(Op::none, Op::transpose, a, b);
}

SymmetricEigen eigh(const Matrix& a) {
  const int n = static_cast<int>(a.rows());
  constexpr const char* no_convergence = "the symmetric eigensolver did not converge";
  SymmetricEigen out;
  if (n <= most_small) {
    out.lambda.resize(n);
    out.U = Matrix::uninitialized(n, n);
    if (!small().eigh(n, a.data(), out.lambda.data(), out.U.data()))
      fail("eigh", n, -1, no_convergence);
    return out;
  }
  Matrix vectors = a;  // row k becomes eigenvector k: LAPACK writes columns, column-major
  Vector ascending(n);
  const int lwork = 1 + 6 * n + 2 * n * n, liwork = 3 + 5 * n;
  static thread_local Vector work;
  static thread_local std::vector<int> iwork;
  grow(work, lwork);
  grow(iwork, liwork);
  int info = 0;
  const OnThisThread guard;
  dsyevd_("V", "L", &n, vectors.data(), &n, ascending.data(), work.data(), &lwork, iwork.data(),
          &liwork, &info);
  if (info != 0) fail("eigh", n, info, no_convergence);
  out.lambda.assign(ascending.rbegin(), ascending.rend());
  out.U = Matrix::uninitialized(n, n);
  // Downwards: the last row becomes the first column.
  transpose_into(out.U, vectors.data() + static_cast<int64_t>(n - 1) * n, -n);
  return out;
}

Matrix solve(const Matrix& a, const Matrix& b) {
  const int n = static_cast<int>(a.rows()), columns = static_cast<int>(b.cols());
  Matrix lu = transpose(a), x = transpose(b);
  static thread_local std::vector<int> pivots;
  grow(pivots, n);
  int info = 0;
  const OnThisThread guard;
  dgetrf_(&n, &n, lu.data(), &n, pivots.data(), &info);
  if (info != 0) fail("solve", n, info, "the linear system is singular");
  dgetrs_("N", &n, &columns, lu.data(), &n, pivots.data(), x.data(), &n, &info);
  return transpose(x);
}

double null_tolerance(int64_t n) {
  // The eigensolver's own error is a few epsilon·λ₁ however small n is: hence at least 16.
  return static_cast<double>(std::max<int64_t>(n, 16)) * std::numeric_limits<double>::epsilon();
}

}  // namespace orthobatch::core::linalg
