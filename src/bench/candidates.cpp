#include "bench/candidates.h"

#include <torch/torch.h>

#include "core/registry.h"
#include "orthobatch/modules.h"

namespace orthobatch::bench {
namespace {

constexpr const char* composed_name = "composed";

template <typename Module>
Layer layer_of(Module module) {
  return {[module](const torch::Tensor& x) mutable { return module->forward(x); },
          module->parameters()};
}

/// ZCA as a user of torch writes it: float, and autograd through the eigenvectors.
Layer composed_zca(int64_t channels) {
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

std::string Candidate::name() const {
  switch (kind) {
    case Kind::torch_bn:
      return "torch BatchNorm2d";
    case Kind::composed:
      return "composed ZCA";
    case Kind::layer:
      break;
  }
  return to_string(*spec);
}

bool Candidate::has_products() const {
  if (kind != Kind::layer) return kind == Kind::composed;
  return !core::find_method(spec->method()).per_channel || spec->has_rotation();
}

std::vector<Candidate> all_candidates() {
  std::vector<Candidate> out = {{Candidate::Kind::torch_bn, {}}};
  for (const core::MethodInfo& info : core::registry())
    out.push_back({Candidate::Kind::layer, LayerSpec(info.name)});
  out.push_back({Candidate::Kind::layer, LayerSpec("ZCA(1e-5)->W->Gamma")});
  out.push_back({Candidate::Kind::composed, {}});
  return out;
}

std::vector<Candidate> parse_candidates(const std::vector<std::string>& names) {
  std::vector<Candidate> out = {{Candidate::Kind::torch_bn, {}}};
  for (const std::string& name : names) {
    if (name == composed_name)
      out.push_back({Candidate::Kind::composed, {}});
    else
      out.push_back({Candidate::Kind::layer, LayerSpec(name)});
  }
  return out;
}

Layer make_layer(const Candidate& candidate, int64_t channels) {
  switch (candidate.kind) {
    case Candidate::Kind::torch_bn:
      return layer_of(torch::nn::BatchNorm2d(channels));
    case Candidate::Kind::composed:
      return composed_zca(channels);
    case Candidate::Kind::layer:
      break;
  }
  return layer_of(BatchOrtho2d(channels, *candidate.spec));
}

void run_pass(const Layer& layer, torch::Tensor& x, const torch::Tensor& gradient,
              PassTimes* times) {
  const double start = now();
  const torch::Tensor z = layer.forward(x);
  const double middle = now();
  z.backward(gradient);
  const double end = now();
  x.mutable_grad().reset();
  for (const torch::Tensor& p : layer.parameters) p.mutable_grad().reset();
  if (!times) return;
  times->forward.each.push_back(1e3 * (middle - start));
  times->backward.each.push_back(1e3 * (end - middle));
  times->both.each.push_back(1e3 * (end - start));
}

}  // namespace orthobatch::bench
