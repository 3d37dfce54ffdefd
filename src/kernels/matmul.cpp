#include "kernels/matmul.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include "core/linalg.h"

namespace orthobatch::kernels {

at::Tensor matmul(const at::Tensor& a, bool transpose_a, const at::Tensor& b, bool transpose_b) {
  if (!a.is_cpu() || (a.scalar_type() != at::kFloat && a.scalar_type() != at::kDouble))
    return at::mm(transpose_a ? a.t() : a, transpose_b ? b.t() : b);
  using core::linalg::Op;
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  const int64_t m = left.size(transpose_a ? 1 : 0), k = left.size(transpose_a ? 0 : 1),
                n = right.size(transpose_b ? 0 : 1);
  at::Tensor out = at::empty({m, n}, left.options());
  AT_DISPATCH_FLOATING_TYPES(left.scalar_type(), "orthobatch::matmul", [&] {
    core::linalg::gemm(transpose_a ? Op::transpose : Op::none,
                       transpose_b ? Op::transpose : Op::none, m, n, k, scalar_t(1),
                       left.data_ptr<scalar_t>(), left.size(1), right.data_ptr<scalar_t>(),
                       right.size(1), scalar_t(0), out.data_ptr<scalar_t>(), n);
  });
  return out;
}

}  // namespace orthobatch::kernels
