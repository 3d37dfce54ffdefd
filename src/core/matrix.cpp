#include "core/matrix.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::core {
namespace {

constexpr int64_t tile = 8;

/// visit(top, left, rows, cols) for the tiles of a matrix, on the threads.
template <typename Visit>
void for_tiles(int64_t rows, int64_t cols, const Visit& visit) {
  parallel_rows(rows, [&](int64_t begin, int64_t end) {
    for (int64_t top = begin; top < end; top += tile)
      for (int64_t left = 0; left < cols; left += tile)
        visit(top, left, std::min(tile, end - top), std::min(tile, cols - left));
  });
}

/// `out` may be `a`: a tile and its mirror are read before they are written.
void sym_into(Matrix& out, const Matrix& a) {
  for_tiles(a.rows(), a.rows(), [&](int64_t top, int64_t left, int64_t rows, int64_t cols) {
    if (left > top) return;
    double mean[tile][tile];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) mean[i][j] = a(top + i, left + j);
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i) mean[i][j] = 0.5 * (mean[i][j] + a(left + j, top + i));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) out(top + i, left + j) = mean[i][j];
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i) out(left + j, top + i) = mean[i][j];
  });
}

}  // namespace

Matrix Matrix::uninitialized(int64_t rows, int64_t cols) {
  Matrix out;
  out.rows_ = rows;
  out.cols_ = cols;
  out.data_.resize(rows * cols);
  return out;
}

Matrix Matrix::identity(int64_t n) { return diagonal(Vector(n, 1.0)); }

Matrix Matrix::diagonal(const Vector& d) {
  Matrix out(static_cast<int64_t>(d.size()));
  for (int64_t i = 0; i < out.rows(); ++i) out(i, i) = d[i];
  return out;
}

Matrix& Matrix::operator+=(const Matrix& other) {
  for (size_t k = 0; k < data_.size(); ++k) data_[k] += other.data_[k];
  return *this;
}

Matrix& Matrix::operator-=(const Matrix& other) {
  for (size_t k = 0; k < data_.size(); ++k) data_[k] -= other.data_[k];
  return *this;
}

Matrix& Matrix::operator*=(double s) {
  for (double& x : data_) x *= s;
  return *this;
}

Matrix operator+(Matrix a, const Matrix& b) { return a += b; }
Matrix operator-(Matrix a, const Matrix& b) { return a -= b; }
Matrix operator*(double s, Matrix a) { return a *= s; }

void transpose_into(Matrix& to, const double* from, int64_t stride) {
  for_tiles(to.rows(), to.cols(), [&](int64_t top, int64_t left, int64_t rows, int64_t cols) {
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i)
        to(top + i, left + j) = from[(left + j) * stride + top + i];
  });
}

Matrix transpose(const Matrix& a) {
  Matrix out = Matrix::uninitialized(a.cols(), a.rows());
  transpose_into(out, a.data(), a.cols());
  return out;
}

Vector diag(const Matrix& a) {
  Vector out(a.rows());
  for (int64_t i = 0; i < a.rows(); ++i) out[i] = a(i, i);
  return out;
}

Matrix sym(const Matrix& a) {
  Matrix out = Matrix::uninitialized(a.rows(), a.rows());
  sym_into(out, a);
  return out;
}

Matrix sym(Matrix&& a) {
  sym_into(a, a);
  return std::move(a);
}

void mirror_lower(Matrix& a) {
  for_tiles(a.rows(), a.rows(), [&](int64_t top, int64_t left, int64_t rows, int64_t cols) {
    if (left > top) return;
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = left == top ? j : 0; i < rows; ++i)
        a(left + j, top + i) = a(top + i, left + j);
  });
}

Matrix scale_rows(const Vector& rows, Matrix a) {
  for (int64_t i = 0; i < a.rows(); ++i)
    for (int64_t j = 0; j < a.cols(); ++j) a(i, j) *= rows[i];
  return a;
}

Matrix scale_cols(Matrix a, const Vector& cols) {
  parallel_rows(a.rows(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < a.cols(); ++j) a(i, j) *= cols[j];
  });
  return a;
}

Matrix strictly_lower(Matrix a) {
  for (int64_t i = 0; i < a.rows(); ++i)
    for (int64_t j = i; j < a.cols(); ++j) a(i, j) = 0.0;
  return a;
}

Matrix take_rows(const Matrix& a, const std::vector<int64_t>& rows) {
  Matrix out(a.rows(), a.cols());
  for (int64_t i = 0; i < a.rows(); ++i)
    for (int64_t j = 0; j < a.cols(); ++j) out(i, j) = a(rows[i], j);
  return out;
}

Matrix take_cols(const Matrix& a, const std::vector<int64_t>& cols) {
  Matrix out(a.rows(), a.cols());
  for (int64_t i = 0; i < a.rows(); ++i)
    for (int64_t j = 0; j < a.cols(); ++j) out(i, j) = a(i, cols[j]);
  return out;
}

Vector rowwise_dot(const Matrix& a, const Matrix& b) {
  Vector out(a.rows());
  add_row_sums(a.rows(), a.cols(), out.data(),
               [&](int64_t i, int64_t j) { return a(i, j) * b(i, j); });
  return out;
}

bool all_finite(const Matrix& a) {
  for (int64_t k = 0; k < a.rows() * a.cols(); ++k)
    if (!std::isfinite(a.data()[k])) return false;
  return true;
}

bool all_finite(const Vector& v) {
  for (double x : v)
    if (!std::isfinite(x)) return false;
  return true;
}

}  // namespace orthobatch::core
