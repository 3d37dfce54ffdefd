#include "orthobatch/modules.h"

#include <torch/nn/init.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

#include <functional>
#include <limits>

#include "base/processor.h"
#include "core/cayley.h"
#include "core/registry.h"
#include "kernels/convert.h"
#include "kernels/passes.h"
#include "nn/layer_call.h"
#include "nn/layer_run.h"

namespace orthobatch {
namespace nn {

/// P and b folded from running statistics, with the values they were folded from.
struct CachedFold {
  Average average;
  std::shared_ptr<const core::Fold> fold;
};

}  // namespace nn

namespace {

using core::find_method;
using core::Fold;
using nn::average_into;
using nn::CachedFold;
using nn::statistic_tensor;

/// N×N work at a quarter of its speed is not an error, but nobody would find out. Said once.
void warn_of_slow_blas() {
  static const bool said = [] {
    const base::BlasCore core = base::blas_core();
    if (!core.better.empty())
      TORCH_WARN("orthobatch: ", core.library, " takes this processor for a ", core.name,
                 " and is slow; set OPENBLAS_CORETYPE=", core.better,
                 " in the environment before the program starts");
    return true;
  }();
  static_cast<void>(said);
}

}  // namespace

BatchOrthoLayer::~BatchOrthoLayer() = default;

BatchOrthoLayer::BatchOrthoLayer(const BatchOrthoOptions& options_, int64_t dims)
    : options(options_), dims_(dims) {
  nn::check_channels(type(), options.channels());
  nn::check_momentum(options.momentum(), type());
  TORCH_CHECK(options.running_average() == RunningAverage::covariance ||
                  !find_method(options.spec().method()).scale_inside,
              type(), ": ", options.spec().method(),
              " has its scale inside the transform; expected RunningAverage::covariance");
  algebra_ = std::make_shared<const core::LayerAlgebra>(options.spec(), options.channels());
  if (!nn::is_per_channel(options.spec())) warn_of_slow_blas();
}

const char* BatchOrthoLayer::type() const {
  return dims_ == 1 ? "BatchOrtho1d" : dims_ == 2 ? "BatchOrtho2d" : "BatchOrtho3d";
}

nn::Callee BatchOrthoLayer::callee() const {
  return {type(), dims_, options.channels(), options.spec(), options.name(), algebra_, weight,
          bias,   skew};
}

std::string BatchOrthoLayer::description() const { return callee().description(); }

torch::Tensor BatchOrthoLayer::run(const torch::Tensor& input, bool training) {
  nn::LayerRun run(*this, input, training);
  if (run.empty()) return input.clone();  // as torch: empty, and no statistics to learn
  torch::Tensor z = nn::apply_layer(run.x(), weight, bias, skew, run.call());
  run.finish();
  return z;
}

nn::Sampling BatchOrthoLayer::sampling() const {
  nn::Sampling out{options.sample_stride(), options.process_group(),
                   std::numeric_limits<double>::max()};
  if (running_var.defined())
    out.largest = nn::largest_variance(options.spec(), kernels::real_of(running_var));
  return out;
}

nn::LayerCall BatchOrthoLayer::call_on_batch(const torch::Tensor& x) const {
  return nn::call_on_statistics(callee(), nn::batch_statistics(callee(), x, sampling()),
                                kernels::real_of(x), sampling());
}

nn::LayerCall BatchOrthoLayer::call_on_average() {
  const std::shared_ptr<const CachedFold> folded = folded_average();
  return {algebra_, folded->fold, folded->average.parameters, description()};
}

void BatchOrthoLayer::take_batch(const Fold& fold, bool update_running, bool unfolded) {
  last_batch_ = {static_cast<int64_t>(fold.samples),
                 statistic_tensor(fold.conditioned(), nn::is_per_channel(options.spec())),
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
  average_into(running_mean, kernels::to_tensor(fold.mean), momentum);
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
  nn::Average now = nn::average_of(callee(), running_mean, statistic, running_transform.defined());
  std::shared_ptr<const CachedFold> cached = std::atomic_load(&cached_);
  if (cached && cached->average == now) return cached;

  std::shared_ptr<const Fold> fold = nn::fold_average(callee(), now);
  cached = std::make_shared<const CachedFold>(CachedFold{std::move(now), std::move(fold)});
  std::atomic_store(&cached_, cached);
  return cached;
}

// ------------------------------------------------------------------------------- by dimension

template <size_t D, typename Derived>
BatchOrthoImplBase<D, Derived>::BatchOrthoImplBase(const BatchOrthoOptions& options_)
    : BatchOrthoLayer(options_, static_cast<int64_t>(D)) {
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

void synchronize(torch::nn::Module& net, const ProcessGroup& group) {
  const auto layers = layers_of(net);
  if (group) {
    std::string all;
    for (const auto& [name, layer] : layers) {
      const BatchOrthoOptions& o = layer->options;
      all += name + " " + to_string(o.spec()) + " " + std::to_string(o.channels()) + " " +
             std::to_string(o.sample_stride()) + "\n";
    }
    // Of one size whatever a rank has: collectives of unequal sizes end the process.
    const torch::Tensor own = torch::tensor(
        {static_cast<int64_t>(layers.size()), static_cast<int64_t>(std::hash<std::string>()(all))});
    const std::vector<torch::Tensor> ranks = group->gather(own);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      TORCH_CHECK(ranks[rank].equal(ranks[0]),
                  "synchronize: expected the same layers on all ranks, "
                  "but rank ",
                  rank, " has others than rank 0 (", ranks[rank][0].item<int64_t>(),
                  " layers against ", ranks[0][0].item<int64_t>(), ")");
  }
  for (const auto& [name, layer] : layers) layer->options.process_group(group);
}

void name_layers(torch::nn::Module& net) {
  for (auto& [name, layer] : layers_of(net)) layer->options.name(name);
}

}  // namespace orthobatch
