#include "core/matrix.h"

#include <cmath>

namespace orthobatch::core {

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

Matrix transpose(const Matrix& a) {
  Matrix out = Matrix::uninitialized(a.cols(), a.rows());
  for_tiles(a.rows(), a.cols(), [&](int64_t i, int64_t j) { out(j, i) = a(i, j); });
  return out;
}

Vector diag(const Matrix& a) {
  Vector out(a.rows());
  for (int64_t i = 0; i < a.rows(); ++i) out[i] = a(i, i);
  return out;
}

Matrix sym(const Matrix& a) {
  Matrix out = Matrix::uninitialized(a.rows(), a.rows());
  for_tiles(a.rows(), a.rows(),
            [&](int64_t i, int64_t j) { out(i, j) = 0.5 * (a(i, j) + a(j, i)); });
  return out;
}

void mirror_lower(Matrix& a) {
  constexpr int64_t tile = 8;
  parallel_rows(a.rows(), [&](int64_t begin, int64_t end) {
    for (int64_t top = begin; top < end; top += tile)
      for (int64_t left = 0; left <= top; left += tile)
        for (int64_t i = top; i < std::min(end, top + tile); ++i)
          for (int64_t j = left; j < std::min(i, left + tile); ++j) a(j, i) = a(i, j);
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
  parallel_rows(a.rows(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < a.cols(); ++j) out[i] += a(i, j) * b(i, j);
  });
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
