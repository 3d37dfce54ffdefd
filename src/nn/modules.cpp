#include "orthobatch/modules.h"

#include <torch/nn/init.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/processor.h"
#include "base/text.h"
#include "core/cayley.h"
#include "core/linalg.h"
#include "core/registry.h"
#include "kernels/convert.h"
#include "kernels/passes.h"
#include "nn/layer_run.h"
#include "nn/sampling.h"

namespace orthobatch {
namespace nn {

/// P and b folded from running statistics, with the values they were folded from.
struct CachedFold {
  core::Real real;
  core::Vector mean;
  core::Vector statistic;  // running variance, covariance or transform
  core::LayerParameters parameters;
  std::shared_ptr<const core::Fold> fold;

  bool same_inputs(const CachedFold& other) const {
    return real == other.real && mean == other.mean && statistic == other.statistic &&
           parameters.gamma == other.parameters.gamma && parameters.bias == other.parameters.bias &&
           parameters.skew == other.parameters.skew;
  }
};

}  // namespace nn

namespace {

using core::BlockMatrix;
using core::find_method;
using core::Fold;
using core::Matrix;
using core::Vector;
using kernels::to_matrix;
using kernels::to_tensor;
using kernels::to_vector;
using nn::CachedFold;

/// A diagonal as C values, anything else as C×C.
torch::Tensor statistic_tensor(const BlockMatrix& m, bool diagonal) {
  return diagonal ? to_tensor(m.values()) : to_tensor(m.dense());
}

BlockMatrix to_blocks(const torch::Tensor& t, int64_t block) {
  return BlockMatrix::from_dense(t.dim() == 1 ? Matrix::diagonal(to_vector(t)) : to_matrix(t),
                                 block);
}

/// N×N work at a quarter of its speed is not an error, but nobody would find out. Said once.
void warn_of_slow_blas() {
  static const bool said = [] {
    const BlasCore core = blas_core();
    if (!core.better.empty())
      TORCH_WARN("orthobatch: ", core.library, " takes this processor for a ", core.name,
                 " and is slow; set OPENBLAS_CORETYPE=", core.better,
                 " in the environment before the program starts");
    return true;
  }();
  static_cast<void>(said);
}

/// Statistics of more channels would take tens of gigabytes and days to factor.
constexpr int64_t max_channels = 1 << 16;

/// average ← (1−momentum) average + momentum value, in the average's own type.
void average_into(torch::Tensor& average, const torch::Tensor& value, double momentum) {
  average.mul_(1 - momentum).add_(value.to(average.options()), momentum);
}

}  // namespace

BatchOrthoLayer::~BatchOrthoLayer() = default;

BatchOrthoLayer::BatchOrthoLayer(const BatchOrthoOptions& options_, const char* type)
    : options(options_), type_(type) {
  TORCH_CHECK(options.channels() >= 1 && options.channels() <= max_channels, type_,
              ": expected 1 to ", max_channels, " channels, got ", options.channels());
  check_momentum(type_);
  TORCH_CHECK(options.running_average() == RunningAverage::covariance ||
                  !find_method(options.spec().method()).scale_inside,
              type_, ": ", options.spec().method(),
              " has its scale inside the transform; expected RunningAverage::covariance");
  algebra_ = std::make_shared<const core::LayerAlgebra>(options.spec(), options.channels());
  if (!is_per_channel()) warn_of_slow_blas();
}

void BatchOrthoLayer::check_momentum(const std::string& name) const {
  const c10::optional<double>& momentum = options.momentum();
  TORCH_CHECK(!momentum || (*momentum >= 0 && *momentum <= 1), name,
              ": expected a momentum from 0 to 1, got ", momentum.value_or(0));
}

bool BatchOrthoLayer::is_per_channel() const {
  return find_method(options.spec().method()).per_channel;
}

std::string BatchOrthoLayer::description() const {
  std::string out = std::string(type_) + "(" + std::to_string(options.channels()) + ", \"" +
                    to_string(options.spec()) + "\")";
  return options.name().empty() ? out : out + " '" + options.name() + "'";
}

void BatchOrthoLayer::check_input(const torch::Tensor& input, bool batch_statistics) const {
  TORCH_CHECK(input.layout() == torch::kStrided, description(), ": expected a dense tensor, got ",
              input.layout());
  TORCH_CHECK(input.size(1) == options.channels(), description(), ": expected ", options.channels(),
              " channels, got input of size ", input.sizes());
  const torch::ScalarType type = input.scalar_type();
  TORCH_CHECK(type == torch::kFloat || type == torch::kDouble, description(),
              ": expected input of type float or double, got ", type);
  for (const torch::Tensor& own : {weight, bias, skew, running_mean})
    if (own.defined()) {
      TORCH_CHECK(own.scalar_type() == type, description(), ": expected input of the layer's type ",
                  own.scalar_type(), ", got ", type);
      TORCH_CHECK(own.device() == input.device(), description(), ": expected input on ",
                  own.device(), ", got ", input.device());
    }
  if (!batch_statistics) return;
  const int64_t stride = options.sample_stride();
  TORCH_CHECK(stride >= 1, description(), ": expected a sample_stride of 1 or more, got ", stride);
  const int64_t samples = nn::sampled(input, stride).numel() / options.channels();
  TORCH_CHECK(samples != 1, description(),
              ": Expected more than 1 value per channel when training, got input size ",
              input.sizes(), stride == 1 ? "" : ", of which sample_stride sees one place");
}

void BatchOrthoLayer::refuse_values(const torch::Tensor& input) const {
  const torch::Tensor x = input.detach();
  const int64_t nan = x.isnan().sum().item<int64_t>(), inf = x.isinf().sum().item<int64_t>();
  if (nan + inf == 0)
    TORCH_CHECK(false, description(),
                ": expected input whose variance fits the statistics, got values up to ",
                x.abs().max().item<double>(), " in size; the running statistics are unchanged");
  const torch::Tensor first = x.isfinite().logical_not().nonzero()[0];
  TORCH_CHECK(false, description(), ": expected finite input, got ", nan, " NaN and ", inf,
              " infinite values, the first at ",
              torch::IntArrayRef(first.data_ptr<int64_t>(), first.numel()),
              "; the running statistics are unchanged");
}

torch::Tensor BatchOrthoLayer::run(const torch::Tensor& input, bool training) {
  nn::LayerRun run(*this, input, training);
  if (run.empty()) return input.clone();  // as torch: empty, and no statistics to learn
  torch::Tensor z = nn::apply_layer(run.x(), weight, bias, skew, run.call());
  run.finish();
  return z;
}

nn::LayerCall BatchOrthoLayer::call_on_batch(const torch::Tensor& x) const {
  const int64_t stride = options.sample_stride();
  const torch::Tensor seen = kernels::dense_layout(nn::sampled(x.detach(), stride));
  kernels::Statistics moments = kernels::passes_for(x).moments(seen, algebra_->block());
  // BN's running variance has the layer's type, and what does not fit there must not get there.
  const double largest = running_var.defined() && running_var.scalar_type() == torch::kFloat
                             ? std::numeric_limits<float>::max() / 4
                             : std::numeric_limits<double>::max();
  const Vector& covariance = moments.covariance.values();
  const bool fits = std::all_of(covariance.begin(), covariance.end(),
                                [&](double c) { return std::abs(c) <= largest; });
  if (!core::all_finite(moments.mean) || !fits) refuse_values(x);

  nn::LayerCall call{algebra_,
                     nullptr,
                     {to_vector(weight), to_vector(bias), to_vector(skew)},
                     description(),
                     stride};
  try {
    call.fold = std::make_shared<const Fold>(
        algebra_->fold(std::move(moments), call.parameters, kernels::real_of(x)));
  } catch (const FactorizationError& error) {
    throw FactorizationError(call.description + ": " + error.what() +
                             "; the running statistics are unchanged");
  }
  return call;
}

nn::LayerCall BatchOrthoLayer::call_on_average() {
  const std::shared_ptr<const CachedFold> folded = folded_average();
  return {algebra_, folded->fold, folded->parameters, description()};
}

void BatchOrthoLayer::take_batch(const Fold& fold, bool update_running, bool unfolded) {
  last_batch_ = {static_cast<int64_t>(fold.samples),
                 statistic_tensor(fold.conditioned(), is_per_channel()),
                 fold.floored(),
                 fold.null(),
                 fold.exchanges(),
                 last_batch_.unfolded + (unfolded ? 1 : 0)};
  if (update_running) update_running_average(fold);
  if (options.sample_stride() > 1 && last_batch_.samples < algebra_->block() && !warned_few_) {
    warned_few_ = true;
    TORCH_WARN(description(), ": sample_stride ", options.sample_stride(), " sees ",
               last_batch_.samples, " places for ", algebra_->block(),
               " channels; what lies in directions it does not see comes out far too large. Said "
               "once.");
  }
  if (last_batch_.null > 0 && !warned_null_) {
    warned_null_ = true;
    TORCH_WARN(description(), ": ", last_batch_.null, " of ", options.channels(),
               " directions have no variance (constant or duplicated channels, or too few samples);"
               " they are 0 in the output. Said once.");
  }
}

void BatchOrthoLayer::update_running_average(const Fold& fold) {
  torch::NoGradGuard no_grad;
  num_batches_tracked.add_(1);
  const double momentum = options.momentum().has_value() ? *options.momentum()
                                                         : 1.0 / num_batches_tracked.item<double>();
  average_into(running_mean, to_tensor(fold.mean), momentum);
  if (running_var.defined()) {
    const auto samples = static_cast<double>(last_batch_.samples);
    average_into(running_var, samples / (samples - 1) * last_batch_.covariance, momentum);
  }
  if (running_cov.defined()) average_into(running_cov, last_batch_.covariance, momentum);
  if (running_transform.defined())
    average_into(running_transform, statistic_tensor(fold.T, false), momentum);
}

// Compares the values themselves: C² comparisons against the C²·M of the transform, and no way to
// change a statistic or parameter goes unnoticed. Safe for several threads in evaluation at once.
std::shared_ptr<const CachedFold> BatchOrthoLayer::folded_average() {
  const torch::Tensor& statistic = running_var.defined()         ? running_var
                                   : running_transform.defined() ? running_transform
                                                                 : running_cov;
  CachedFold now{kernels::real_of(running_mean),
                 to_vector(running_mean),
                 to_vector(statistic),
                 {to_vector(weight), to_vector(bias), to_vector(skew)},
                 nullptr};
  std::shared_ptr<const CachedFold> cached = std::atomic_load(&cached_);
  if (cached && cached->same_inputs(now)) return cached;

  TORCH_CHECK(core::all_finite(now.mean) && core::all_finite(now.statistic), description(),
              ": expected finite running statistics, got NaN or infinite ones");
  const BlockMatrix blocks = to_blocks(statistic, algebra_->block());
  now.fold = std::make_shared<const Fold>(
      running_transform.defined()
          ? algebra_->fold_transform(now.mean, blocks, now.parameters, now.real)
          : algebra_->fold_average(now.mean, blocks, now.parameters, now.real));
  cached = std::make_shared<const CachedFold>(std::move(now));
  std::atomic_store(&cached_, cached);
  return cached;
}

// ------------------------------------------------------------------------------- by dimension

template <size_t D, typename Derived>
BatchOrthoImplBase<D, Derived>::BatchOrthoImplBase(const BatchOrthoOptions& options_)
    : BatchOrthoLayer(options_, D == 1   ? "BatchOrtho1d"
                                : D == 2 ? "BatchOrtho2d"
                                         : "BatchOrtho3d") {
  reset();  // NOLINT(clang-analyzer-optin.cplusplus.VirtualCall): final in effect, as in torch's
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::reset() {
  const int64_t channels = options.channels();
  const LayerSpec& spec = options.spec();
  const bool per_channel = find_method(spec.method()).per_channel;
  const bool covariance = options.running_average() == RunningAverage::covariance;
  const auto parameter = [&](const char* name, bool present, int64_t size) {
    return this->register_parameter(name, present ? torch::empty({size}) : torch::Tensor(),
                                    present);
  };
  const auto buffer = [&](const char* name, bool present, const torch::Tensor& value) {
    const bool kept = present && options.track_running_stats();
    return this->register_buffer(name, kept ? value : torch::Tensor());
  };
  weight = parameter("weight", options.affine() && spec.has_scale(), channels);
  bias = parameter("bias", options.affine(), channels);
  skew = parameter("skew", spec.has_rotation(), core::skew_size(channels));
  running_mean = buffer("running_mean", true, torch::zeros({channels}));
  running_var = buffer("running_var", per_channel && covariance, torch::ones({channels}));
  running_cov =
      buffer("running_cov", !per_channel && covariance, torch::eye(channels, torch::kDouble));
  running_transform =
      buffer("running_transform", !covariance, torch::eye(channels, torch::kDouble));
  num_batches_tracked = buffer("num_batches_tracked", true, torch::tensor(0, torch::kLong));
  reset_parameters();
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::pretty_print(std::ostream& stream) const {
  stream << description();
  if (options.momentum())
    stream << " momentum=" << *options.momentum();
  else
    stream << " momentum=cumulative";
  if (!options.affine()) stream << " affine=false";
  if (!options.track_running_stats()) stream << " track_running_stats=false";
  if (options.running_average() == RunningAverage::transform)
    stream << " running_average=transform";
  if (options.sample_stride() != 1) stream << " sample_stride=" << options.sample_stride();
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::check_rank(const torch::Tensor& input) const {
  const auto rank = static_cast<size_t>(input.dim());
  const bool fits = rank == D + 2 || (D == 1 && rank == 2);
  TORCH_CHECK(fits, description(), ": expected ",
              D == 1   ? "2D or 3D"
              : D == 2 ? "4D"
                       : "5D",
              " input (got ", rank, "D input)");
}

template <size_t D, typename Derived>
torch::Tensor BatchOrthoImplBase<D, Derived>::forward(const torch::Tensor& input) {
  return run(input, this->is_training());
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::save(torch::serialize::OutputArchive& archive) const {
  torch::nn::Module::save(archive);
  save_spec(archive);
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::load(torch::serialize::InputArchive& archive) {
  check_archive(archive);
  torch::nn::Module::load(archive);
}

namespace {

/// Runs a conversion of the module and puts the exact buffers back as they were, on their device.
template <typename Convert>
void keeping(const std::vector<torch::Tensor*>& exact, const Convert& convert) {
  std::vector<torch::Tensor> before;
  for (const torch::Tensor* t : exact) before.push_back(t->detach());
  convert();
  for (size_t k = 0; k < exact.size(); ++k) exact[k]->set_data(before[k].to(exact[k]->device()));
}

}  // namespace

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::to(torch::Device device, torch::Dtype dtype,
                                        bool non_blocking) {
  keeping(exact_buffers(), [&] { torch::nn::Module::to(device, dtype, non_blocking); });
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::to(torch::Dtype dtype, bool non_blocking) {
  keeping(exact_buffers(), [&] { torch::nn::Module::to(dtype, non_blocking); });
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::to(torch::Device device, bool non_blocking) {
  torch::nn::Module::to(device, non_blocking);
}

template class BatchOrthoImplBase<1, BatchOrtho1dImpl>;
template class BatchOrthoImplBase<2, BatchOrtho2dImpl>;
template class BatchOrthoImplBase<3, BatchOrtho3dImpl>;

std::vector<std::pair<std::string, BatchOrthoLayer*>> layers_of(torch::nn::Module& net) {
  std::vector<std::pair<std::string, BatchOrthoLayer*>> out;
  // Without the net itself, which torch only hands out where a shared_ptr owns it.
  for (const auto& item : net.named_modules("", /*include_self=*/false))
    if (auto* layer = dynamic_cast<BatchOrthoLayer*>(item.value().get()))
      out.emplace_back(item.key(), layer);
  return out;
}

std::vector<std::pair<std::string, const BatchOrthoLayer*>> layers_of(
    const torch::nn::Module& net) {
  // named_modules hands out pointers to what a const module may not change.
  const auto layers = layers_of(const_cast<torch::nn::Module&>(net));
  return {layers.begin(), layers.end()};
}

void name_layers(torch::nn::Module& net) {
  for (auto& [name, layer] : layers_of(net)) layer->options.name(name);
}

}  // namespace orthobatch
