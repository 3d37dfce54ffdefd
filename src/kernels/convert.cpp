#include "kernels/convert.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace orthobatch::kernels {

Vector to_vector(const at::Tensor& t) {
  if (!t.defined()) return {};
  const at::Tensor c = t.detach().to(at::kCPU, at::kDouble).contiguous();
  return {c.data_ptr<double>(), c.data_ptr<double>() + c.numel()};
}

Matrix to_matrix(const at::Tensor& t) {
  const Vector values = to_vector(t);
  Matrix m(t.size(0));
  std::copy(values.begin(), values.end(), m.data());
  return m;
}

at::Tensor to_tensor(const Vector& v) { return at::tensor(v, at::kDouble); }

at::Tensor to_tensor(const Matrix& m) {
  at::Tensor out = at::empty({m.rows(), m.cols()}, at::kDouble);
  std::copy_n(m.data(), m.rows() * m.cols(), out.data_ptr<double>());
  return out;
}

}  // namespace orthobatch::kernels
