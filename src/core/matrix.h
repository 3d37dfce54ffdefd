#pragma once
// The dense double matrices of the N×N mathematics. Products go through linalg.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/parallel.h"

namespace orthobatch::core {

using Vector = std::vector<double>;

/// As std::allocator, but a vector of a size alone is not filled with zeros.
struct LeaveUninitialized : std::allocator<double> {
  template <typename>
  struct rebind {
    using other = LeaveUninitialized;
  };
  template <typename T>
  void construct(T* at) {
    ::new (static_cast<void*>(at)) T;
  }
  template <typename T, typename Value>
  void construct(T* at, Value&& value) {
    ::new (static_cast<void*>(at)) T(std::forward<Value>(value));
  }
};

/// Row-major dense matrix of doubles, zero when made.
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t cols) : rows_(rows), cols_(cols), data_(rows * cols, 0.0) {}
  explicit Matrix(int64_t n) : Matrix(n, n) {}

  /// For what is about to be overwritten: any values.
  static Matrix uninitialized(int64_t rows, int64_t cols);

  static Matrix identity(int64_t n);
  static Matrix diagonal(const Vector& d);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  bool empty() const { return data_.empty(); }
  double* data() { return data_.data(); }
  const double* data() const { return data_.data(); }
  double& operator()(int64_t i, int64_t j) { return data_[i * cols_ + j]; }
  double operator()(int64_t i, int64_t j) const { return data_[i * cols_ + j]; }

  Matrix& operator+=(const Matrix& other);
  Matrix& operator-=(const Matrix& other);
  Matrix& operator*=(double s);

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::vector<double, LeaveUninitialized> data_;
};

Matrix operator+(Matrix a, const Matrix& b);
Matrix operator-(Matrix a, const Matrix& b);
Matrix operator*(double s, Matrix a);

/// out[i] += Σ_j term(i, j) over j < cols for the rows of an N×N matrix, on the threads. Four rows
/// at a time, as each sum waits for its last term; a row's terms are added in their order.
template <typename Term>
void add_row_sums(int64_t rows, int64_t cols, double* out, const Term& term) {
  parallel_rows(rows, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) {
      double a = out[i], b = out[i + 1], c = out[i + 2], d = out[i + 3];
      for (int64_t j = 0; j < cols; ++j) {
        a += term(i, j);
        b += term(i + 1, j);
        c += term(i + 2, j);
        d += term(i + 3, j);
      }
      out[i] = a, out[i + 1] = b, out[i + 2] = c, out[i + 3] = d;
    }
    for (; i < end; ++i)
      for (int64_t j = 0; j < cols; ++j) out[i] += term(i, j);
  });
}

/// to(j, i) = from(i, j), from with rows of `stride`, to row-major. In tiles of few lines of the
/// cache: rows of a power of two of doubles share those lines.
void transpose_into(Matrix& to, const double* from, int64_t stride);

Matrix transpose(const Matrix& a);
Vector diag(const Matrix& a);

/// (A + Aᵀ)/2
Matrix sym(const Matrix& a);
Matrix sym(Matrix&& a);

/// What is above the diagonal becomes the mirror of what is below.
void mirror_lower(Matrix& a);

/// diag(rows) · A
Matrix scale_rows(const Vector& rows, Matrix a);

/// A · diag(cols)
Matrix scale_cols(Matrix a, const Vector& cols);

/// The entries below the diagonal; the rest 0.
Matrix strictly_lower(Matrix a);

/// The rows of `a` in the order of `rows`: result(i, :) = a(rows[i], :).
Matrix take_rows(const Matrix& a, const std::vector<int64_t>& rows);
/// The columns of `a` in the order of `cols`: result(:, j) = a(:, cols[j]).
Matrix take_cols(const Matrix& a, const std::vector<int64_t>& cols);

/// Σ_ij A_ij B_ij for each row i.
Vector rowwise_dot(const Matrix& a, const Matrix& b);

bool all_finite(const Matrix& a);
bool all_finite(const Vector& v);

}  // namespace orthobatch::core
