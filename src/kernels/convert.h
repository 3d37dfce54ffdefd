#pragma once
// Between tensors of any type and device and the double matrices of the N×N mathematics.

#include <ATen/core/Tensor.h>

#include "core/matrix.h"

namespace orthobatch::kernels {

using core::Matrix;
using core::Vector;

/// A tensor's values in order; empty for an undefined one.
Vector to_vector(const at::Tensor& t);

/// A square tensor.
Matrix to_matrix(const at::Tensor& t);

/// A new double tensor on the CPU.
at::Tensor to_tensor(const Vector& v);
at::Tensor to_tensor(const Matrix& m);

}  // namespace orthobatch::kernels
