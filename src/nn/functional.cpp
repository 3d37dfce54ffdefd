#include "orthobatch/functional.h"

#include "ops/operators.h"

namespace orthobatch {
namespace {

ops::Tensors3 call(const torch::Tensor& x, const LayerSpec& spec, bool return_map) {
  static const auto op = ops::find_operator<ops::Whiten>("orthobatch::whiten");
  return op.call(x, to_string(spec), return_map);
}

}  // namespace

torch::Tensor whiten(const torch::Tensor& x, const LayerSpec& spec) {
  return std::get<0>(call(x, spec, /*return_map=*/false));
}

Whitened whiten_with_map(const torch::Tensor& x, const LayerSpec& spec) {
  const auto [output, matrix, mean] = call(x, spec, /*return_map=*/true);
  return {output, matrix, mean};
}

torch::Tensor whitening_matrix(const torch::Tensor& covariance, const LayerSpec& spec) {
  static const auto op = ops::find_operator<ops::WhiteningMatrix>("orthobatch::whitening_matrix");
  return std::get<0>(op.call(covariance, to_string(spec)));
}

}  // namespace orthobatch
