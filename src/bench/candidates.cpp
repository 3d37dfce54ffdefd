#include "bench/candidates.h"

#include <torch/torch.h>

#include "core/registry.h"
#include "orthobatch/modules.h"

namespace orthobatch::bench {
namespace {

/// ZCA as a user of torch writes it: float, and autograd through the eigenvectors.
Model composed_zca(int64_t channels) {
  const torch::Tensor weight = torch::ones({channels, 1}).requires_grad_();
  const torch::Tensor bias = torch::zeros({channels, 1}).requires_grad_();
  const auto forward = [weight, bias, channels](const torch::Tensor& x) {
    const torch::Tensor flat = x.transpose(0, 1).reshape({channels, -1});
    const torch::Tensor centred = flat - flat.mean(1, /*keepdim=*/true);
    const torch::Tensor covariance = centred.matmul(centred.t()) / centred.size(1);
    const auto [lambda, U] = torch::linalg_eigh(covariance + 1e-5 * torch::eye(channels), "L");
    const torch::Tensor T = (U * lambda.rsqrt()).matmul(U.t());
    const torch::Tensor z = weight * T.matmul(centred) + bias;
    return z.view({channels, x.size(0), x.size(2), x.size(3)}).transpose(0, 1);
  };
  return {forward, {weight, bias}};
}

}  // namespace

std::vector<Candidate> candidates_of(std::vector<std::string> names) {
  if (names.empty()) {
    for (const core::MethodInfo& info : core::registry()) names.push_back(info.name);
    names.insert(names.end(), {"ZCA(1e-5)->W->Gamma", "composed"});
  }
  std::vector<Candidate> out = {{torch_row}};
  for (const std::string& name : names)
    out.push_back(name == "composed" ? Candidate{composed_row}
                                     : Candidate{to_string(LayerSpec(name)), LayerSpec(name)});
  return out;
}

Model make_layer(const Candidate& candidate, int64_t channels) {
  if (candidate.spec) return model_of(BatchOrtho2d(channels, *candidate.spec));
  if (candidate.name == composed_row) return composed_zca(channels);
  return model_of(torch::nn::BatchNorm2d(channels));
}

Sample run_pass(const Model& layer, const torch::Tensor& x, const torch::Tensor& gradient) {
  torch::Tensor z;
  const double forward = milliseconds([&] { z = layer.forward(x); });
  const double backward = milliseconds([&] { z.backward(gradient); });
  x.mutable_grad().reset();
  for (const torch::Tensor& p : layer.parameters) p.mutable_grad().reset();
  return {{total_part, forward + backward}, {forward_part, forward}, {backward_part, backward}};
}

}  // namespace orthobatch::bench
