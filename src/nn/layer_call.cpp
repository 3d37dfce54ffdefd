#include "nn/layer_call.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/registry.h"
#include "kernels/convert.h"
#include "kernels/passes.h"
#include "nn/ranks.h"
#include "nn/sampling.h"
#include "orthobatch/errors.h"

namespace orthobatch::nn {
namespace {

using core::BlockMatrix;
using core::Vector;
using kernels::to_vector;

/// Statistics of more channels would take tens of gigabytes and days to factor.
constexpr int64_t max_channels = 1 << 16;

/// Of C values, a diagonal, or of C².
BlockMatrix to_blocks(const Vector& values, int64_t channels, int64_t block) {
  if (block == 1 && static_cast<int64_t>(values.size()) == channels) {
    BlockMatrix out(channels, 1);
    out.values() = values;
    return out;
  }
  core::Matrix dense(channels);
  std::copy(values.begin(), values.end(), dense.data());
  return BlockMatrix::from_dense(dense, block);
}

[[noreturn]] void refuse_values(const Callee& callee, const torch::Tensor& input, bool of_ranks) {
  const torch::Tensor x = input.detach();
  const int64_t nan = x.isnan().sum().item<int64_t>(), inf = x.isinf().sum().item<int64_t>();
  TORCH_CHECK(
      !of_ranks || nan + inf > 0, callee.description(),
      ": expected finite input whose variance fits the statistics, got other values on some "
      "rank; the running statistics are unchanged");
  if (nan + inf == 0)
    TORCH_CHECK(false, callee.description(),
                ": expected input whose variance fits the statistics, got values up to ",
                x.abs().max().item<double>(), " in size; the running statistics are unchanged");
  const torch::Tensor first = x.isfinite().logical_not().nonzero()[0];
  TORCH_CHECK(false, callee.description(), ": expected finite input, got ", nan, " NaN and ", inf,
              " infinite values, the first at ",
              torch::IntArrayRef(first.data_ptr<int64_t>(), first.numel()),
              "; the running statistics are unchanged");
}

}  // namespace

std::string Callee::description() const {
  std::string out =
      std::string(type) + "(" + std::to_string(channels) + ", \"" + to_string(spec) + "\")";
  return name.empty() ? out : out + " '" + name + "'";
}

core::LayerParameters Callee::parameters() const {
  return {to_vector(weight), to_vector(bias), to_vector(skew)};
}

void check_channels(const char* type, int64_t channels) {
  TORCH_CHECK(channels >= 1 && channels <= max_channels, type, ": expected 1 to ", max_channels,
              " channels, got ", channels);
}

void check_rank(const Callee& callee, const torch::Tensor& input) {
  const int64_t rank = input.dim();
  const bool fits = rank == callee.dims + 2 || (callee.dims == 1 && rank == 2);
  TORCH_CHECK(fits, callee.description(), ": expected ",
              callee.dims == 1   ? "2D or 3D"
              : callee.dims == 2 ? "4D"
                                 : "5D",
              " input (got ", rank, "D input)");
}

void check_shape(const Callee& callee, const char* name, const torch::Tensor& t,
                 torch::IntArrayRef shape) {
  TORCH_CHECK(t.sizes() == shape, callee.description(), ": expected ", name, " of size ", shape,
              ", got ", t.sizes());
}

void check_input(const Callee& callee, const torch::Tensor& input,
                 const std::vector<torch::Tensor>& own) {
  TORCH_CHECK(input.layout() == torch::kStrided, callee.description(),
              ": expected a dense tensor, got ", input.layout());
  TORCH_CHECK(input.size(1) == callee.channels, callee.description(), ": expected ",
              callee.channels, " channels, got input of size ", input.sizes());
  const torch::ScalarType type = input.scalar_type();
  TORCH_CHECK(type == torch::kFloat || type == torch::kDouble, callee.description(),
              ": expected input of type float or double, got ", type);
  for (const torch::Tensor& t : own)
    if (t.defined()) {
      TORCH_CHECK(t.scalar_type() == type, callee.description(),
                  ": expected input of the layer's type ", t.scalar_type(), ", got ", type);
      TORCH_CHECK(t.device() == input.device(), callee.description(), ": expected input on ",
                  t.device(), ", got ", input.device());
    }
}

void check_samples(const Callee& callee, const torch::Tensor& input, const Sampling& sampling) {
  TORCH_CHECK(sampling.stride >= 1, callee.description(),
              ": expected a sample_stride of 1 or more, got ", sampling.stride);
  if (sampling.group) return;  // others may have more
  const int64_t samples = sampled(input, sampling.stride).numel() / callee.channels;
  TORCH_CHECK(samples != 1, callee.description(),
              ": Expected more than 1 value per channel when training, got input size ",
              input.sizes(), sampling.stride == 1 ? "" : ", of which sample_stride sees one place");
}

core::Statistics batch_statistics(const Callee& callee, const torch::Tensor& x,
                                  const Sampling& sampling) {
  const int64_t block = callee.algebra->block();
  core::Statistics out;
  if (x.numel() > 0) {
    const torch::Tensor seen = kernels::dense_layout(sampled(x.detach(), sampling.stride));
    out = kernels::passes_for(x).moments(seen, block);
  } else {
    out.mean = Vector(callee.channels);
    out.covariance = BlockMatrix(callee.channels, block);
  }
  // What is not finite goes to all ranks, so that all refuse it and none waits for another.
  if (sampling.group) out = merge_ranks(sampling.group, out);
  check_statistics(callee, out, x, sampling, static_cast<bool>(sampling.group));
  return out;
}

void check_statistics(const Callee& callee, const core::Statistics& statistics,
                      const torch::Tensor& x, const Sampling& sampling, bool of_ranks) {
  TORCH_CHECK(!of_ranks || statistics.samples > 1, callee.description(),
              ": Expected more than 1 value per channel when training, got ", statistics.samples,
              " on all ranks together");
  const Vector& covariance = statistics.covariance.values();
  const bool fits = std::all_of(covariance.begin(), covariance.end(),
                                [&](double c) { return std::abs(c) <= sampling.largest; });
  if (!core::all_finite(statistics.mean) || !fits) refuse_values(callee, x, of_ranks);
}

LayerCall call_on_statistics(const Callee& callee, core::Statistics statistics, core::Real real,
                             const Sampling& sampling) {
  LayerCall call{callee.algebra,       nullptr,         callee.parameters(),
                 callee.description(), sampling.stride, sampling.group};
  try {
    call.fold = std::make_shared<const core::Fold>(
        callee.algebra->fold(std::move(statistics), call.parameters, real));
  } catch (const FactorizationError& error) {
    throw FactorizationError(call.description + ": " + error.what() +
                             "; the running statistics are unchanged");
  }
  return call;
}

bool Average::operator==(const Average& other) const {
  return real == other.real && transform == other.transform && mean == other.mean &&
         statistic == other.statistic && parameters.gamma == other.parameters.gamma &&
         parameters.bias == other.parameters.bias && parameters.skew == other.parameters.skew;
}

Average average_of(const Callee& callee, const torch::Tensor& mean, const torch::Tensor& statistic,
                   bool transform) {
  return {kernels::real_of(mean), transform, to_vector(mean), to_vector(statistic),
          callee.parameters()};
}

std::shared_ptr<const core::Fold> fold_average(const Callee& callee, const Average& average) {
  TORCH_CHECK(core::all_finite(average.mean) && core::all_finite(average.statistic),
              callee.description(),
              ": expected finite running statistics, got NaN or infinite ones");
  const core::LayerAlgebra& algebra = *callee.algebra;
  const BlockMatrix blocks = to_blocks(average.statistic, callee.channels, algebra.block());
  return std::make_shared<const core::Fold>(
      average.transform
          ? algebra.fold_transform(average.mean, blocks, average.parameters, average.real)
          : algebra.fold_average(average.mean, blocks, average.parameters, average.real));
}

torch::Tensor statistic_tensor(const BlockMatrix& m, bool diagonal) {
  return diagonal ? kernels::to_tensor(m.values()) : kernels::to_tensor(m.dense());
}

void average_into(torch::Tensor& average, const torch::Tensor& value, double momentum) {
  average.mul_(1 - momentum).add_(value.to(average.options()), momentum);
}

bool is_per_channel(const LayerSpec& spec) { return core::find_method(spec.method()).per_channel; }

double largest_variance(const LayerSpec& spec, core::Real real) {
  // BN's running variance has the layer's type, and what does not fit there must not get there.
  return is_per_channel(spec) && real == core::Real::float32 ? std::numeric_limits<float>::max() / 4
                                                             : std::numeric_limits<double>::max();
}

bool same_state(const LayerSpec& a, const LayerSpec& b) {
  if (a.method() != b.method() || a.rotation() != b.rotation() || a.group_size() != b.group_size())
    return false;
  for (const core::Parameter& p : core::find_method(a.method()).parameters)
    if (p.style == core::Parameter::Style::flag && a.value(p.name) != b.value(p.name)) return false;
  return true;
}

void check_momentum(const c10::optional<double>& momentum, const std::string& description) {
  TORCH_CHECK(!momentum || (*momentum >= 0 && *momentum <= 1), description,
              ": expected a momentum from 0 to 1, got ", momentum.value_or(0));
}

}  // namespace orthobatch::nn
