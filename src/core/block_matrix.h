#pragma once

#include "core/matrix.h"

namespace orthobatch::core {

/// A square matrix with blocks of `block` channels on its diagonal and zeros elsewhere; the last
/// block is smaller where `block` does not divide n. block = 1 is a diagonal, block = n is dense.
class BlockMatrix {
 public:
  BlockMatrix() = default;
  BlockMatrix(int64_t n, int64_t block) : n_(n), block_(block), data_(storage(n, block)) {}

  /// The blocks of a dense matrix; what lies outside them is dropped.
  static BlockMatrix from_dense(const Matrix& a, int64_t block);

  int64_t size() const { return n_; }
  int64_t block() const { return block_; }
  bool empty() const { return n_ == 0; }

  int64_t count() const { return n_ == 0 ? 0 : (n_ + block_ - 1) / block_; }
  int64_t offset(int64_t b) const { return b * block_; }
  int64_t width(int64_t b) const { return b + 1 < count() ? block_ : n_ - offset(b); }

  /// Row-major width(b) × width(b).
  double* data(int64_t b) { return data_.data() + b * block_ * block_; }
  const double* data(int64_t b) const { return data_.data() + b * block_ * block_; }

  Matrix get(int64_t b) const;
  void set(int64_t b, const Matrix& m);

  Matrix dense() const;
  BlockMatrix& operator+=(const BlockMatrix& other);
  BlockMatrix& operator*=(double s);

  /// Every stored entry.
  Vector& values() { return data_; }
  const Vector& values() const { return data_; }

 private:
  static std::size_t storage(int64_t n, int64_t block) {
    const int64_t full = n / block, rest = n % block;
    return static_cast<std::size_t>(full * block * block + rest * rest);
  }

  int64_t n_ = 0;
  int64_t block_ = 1;
  Vector data_;
};

/// Aᵀ
BlockMatrix transpose(const BlockMatrix& a);
/// A x
Vector multiply(const BlockMatrix& a, const Vector& x);
/// Aᵀ x
Vector multiply_transposed(const BlockMatrix& a, const Vector& x);

}  // namespace orthobatch::core
