#pragma once
// The four passes on the CPU, a file each, by the type of the data. Each thread walks its range of
// tiles once; products run as GEMMs on tiles that stay in cache, and straight from and to the
// tensors where no centring is asked for; what is summed over samples is summed across tiles in
// double.

#include "core/linalg.h"
#include "kernels/passes.h"
#include "kernels/tiles.h"

namespace orthobatch::kernels {

template <typename T>
Moments cpu_moments(const at::Tensor& x, int64_t block);

/// S is the type of the sums: T, or double for float data.
template <typename T, typename S>
at::Tensor cpu_transform(const at::Tensor& x, const BlockMatrix& P, const Vector& center,
                         const Vector& offset);

template <typename T>
Products cpu_products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                      int64_t block);

template <typename T>
at::Tensor cpu_input_gradient(const at::Tensor& g, const at::Tensor& x, const BlockMatrix& P,
                              const BlockMatrix& Q, const Vector& center, const Vector& offset);

inline bool all_zero(const Vector& v) {
  return std::all_of(v.begin(), v.end(), [](double d) { return d == 0; });
}

/// A tile in memory, as an operand of gemm: the tensor's own or a packed copy.
template <typename T>
struct Operand {
  T* data;
  int64_t stride;

  Operand from_channel(const Layout& layout, int64_t channel) const {
    return {data + channel * (layout.sample_major ? 1 : stride), stride};
  }
};

/// out += op(M) in over the samples of a tile, M block-diagonal with its values in T.
template <typename T>
void add_product(const Layout& layout, linalg::Op op, const BlockMatrix& shape,
                 const std::vector<T>& m, int64_t samples, Operand<const T> in, Operand<T> out) {
  using linalg::Op;
  for (int64_t b = 0; b < shape.count(); ++b) {
    const int64_t width = shape.width(b);
    const T* block = m.data() + (shape.data(b) - shape.data(0));
    const Operand<const T> from = in.from_channel(layout, shape.offset(b));
    const Operand<T> to = out.from_channel(layout, shape.offset(b));
    if (layout.sample_major)  // rows are samples: out += in · op(M)ᵀ
      linalg::gemm(Op::none, op == Op::none ? Op::transpose : Op::none, samples, width, width, T(1),
                   from.data, from.stride, block, width, T(1), to.data, to.stride);
    else
      linalg::gemm(op, Op::none, width, samples, width, T(1), block, width, from.data, from.stride,
                   T(1), to.data, to.stride);
  }
}

}  // namespace orthobatch::kernels
