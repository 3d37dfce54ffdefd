#pragma once
// Between tensors of any type and device and the double matrices of the N×N mathematics.

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/matrix.h"

namespace orthobatch::kernels {

using core::Matrix;
using core::Vector;

/// A tensor's values in order; empty for an undefined one.
Vector to_vector(const at::Tensor& t);

/// A square tensor.
Matrix to_matrix(const at::Tensor& t);

/// The same of several on one device, from elsewhere in one transfer.
std::vector<Vector> to_vectors(const std::vector<at::Tensor>& tensors);

/// Double, or float on a device that has no double.
at::ScalarType exact_type(const at::Device& device);

/// Vectors on the device of another tensor, in its exact type, in one transfer.
std::vector<at::Tensor> to_device(const std::vector<const Vector*>& vectors,
                                  const at::Device& device);

/// A new double tensor on the CPU.
at::Tensor to_tensor(const Vector& v);
at::Tensor to_tensor(const Matrix& m);

}  // namespace orthobatch::kernels
