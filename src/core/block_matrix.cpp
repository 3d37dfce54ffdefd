#include "core/block_matrix.h"

#include <algorithm>

namespace orthobatch::core {
namespace {

/// n×n values, on the threads.
void copy_rows(int64_t n, const double* from, double* to) {
  parallel_rows(n, [&](int64_t begin, int64_t end) {
    std::copy(from + begin * n, from + end * n, to + begin * n);
  });
}

}  // namespace

BlockMatrix BlockMatrix::from_dense(const Matrix& a, int64_t block) {
  BlockMatrix out(a.rows(), block);
  for (int64_t b = 0; b < out.count(); ++b)
    for (int64_t i = 0; i < out.width(b); ++i)
      for (int64_t j = 0; j < out.width(b); ++j)
        out.data(b)[i * out.width(b) + j] = a(out.offset(b) + i, out.offset(b) + j);
  return out;
}

Matrix BlockMatrix::get(int64_t b) const {
  Matrix out = Matrix::uninitialized(width(b), width(b));
  copy_rows(width(b), data(b), out.data());
  return out;
}

void BlockMatrix::set(int64_t b, const Matrix& m) { copy_rows(width(b), m.data(), data(b)); }

Matrix BlockMatrix::dense() const {
  Matrix out(n_);
  for (int64_t b = 0; b < count(); ++b)
    for (int64_t i = 0; i < width(b); ++i)
      std::copy_n(data(b) + i * width(b), width(b), &out(offset(b) + i, offset(b)));
  return out;
}

BlockMatrix& BlockMatrix::operator+=(const BlockMatrix& other) {
  for (size_t k = 0; k < data_.size(); ++k) data_[k] += other.data_[k];
  return *this;
}

BlockMatrix& BlockMatrix::operator*=(double s) {
  for (double& x : data_) x *= s;
  return *this;
}

Vector multiply(const BlockMatrix& a, const Vector& x) {
  Vector out(a.size());
  for (int64_t b = 0; b < a.count(); ++b)
    add_row_sums(a.width(b), a.width(b), &out[a.offset(b)], [&](int64_t i, int64_t j) {
      return a.data(b)[i * a.width(b) + j] * x[a.offset(b) + j];
    });
  return out;
}

BlockMatrix transpose(const BlockMatrix& a) {
  BlockMatrix out(a.size(), a.block());
  for (int64_t b = 0; b < a.count(); ++b) out.set(b, transpose(a.get(b)));
  return out;
}

Vector multiply_transposed(const BlockMatrix& a, const Vector& x) {
  Vector out(a.size());
  for (int64_t b = 0; b < a.count(); ++b)
    for (int64_t i = 0; i < a.width(b); ++i)
      for (int64_t j = 0; j < a.width(b); ++j)
        out[a.offset(b) + j] += a.data(b)[i * a.width(b) + j] * x[a.offset(b) + i];
  return out;
}

}  // namespace orthobatch::core
