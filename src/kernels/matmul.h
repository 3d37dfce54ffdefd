#pragma once

#include <ATen/core/Tensor.h>

namespace orthobatch::kernels {

/// op(a) op(b) of two matrices, op the transpose where it is asked for. On the CPU by the library of
/// our float products on all threads: OpenBLAS, which torch takes, needs four times as long for the
/// thin ones of a linear layer, and its own threads beside ours.
at::Tensor matmul(const at::Tensor& a, bool transpose_a, const at::Tensor& b, bool transpose_b);

}  // namespace orthobatch::kernels
