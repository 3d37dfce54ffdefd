// A layer's module: a call of its operator, and what it takes note of.

#include "nn/layer.h"

#include <torch/nn/init.h>
#include <torch/types.h>

#include <mutex>
#include <set>

#include "nn/state.h"
#include "ops/call.h"
#include "ops/operators.h"
#include "ops/tape.h"

namespace orthobatch {
namespace {

using ops::optional;
using torch::Tensor;

/// What is no error, but nobody would find out. Said once.
void give_advice(const ops::KnownLayer& layer) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;
  for (const std::string& text : ops::advice(layer)) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (said->insert(text).second) TORCH_WARN("orthobatch: ", text);
  }
}

ops::Layer layer_as_is(const BatchOrthoOptions& options, int64_t dims) {
  ops::Layer out;
  out.dims = dims;
  out.num_features = options.num_features();
  out.spec = options.spec();
  out.sample_stride = options.sample_stride();
  out.average = options.running_average();
  out.group = options.process_group() ? options.process_group()->number() : 0;
  out.name = options.name();
  return out;
}

/// The running average that T comes from, and that of a smaller last group.
std::pair<const Tensor&, const Tensor&> statistic(const BatchOrthoLayer& layer) {
  if (layer.running_var.defined()) return {layer.running_var, layer.running_cov_last};
  if (layer.running_cov.defined()) return {layer.running_cov, layer.running_cov_last};
  return {layer.running_transform, layer.running_transform_last};
}

}  // namespace

BatchOrthoLayer::BatchOrthoLayer(const BatchOrthoOptions& options_, int64_t dims)
    : options(options_), own_(std::make_unique<Own>()) {
  own_->dims = dims;
  ops::check_momentum(options.momentum(), nn::Access::text(*this));
  give_advice(*ops::layer_of(nn::Access::text(*this)));
}

BatchOrthoLayer::~BatchOrthoLayer() = default;

BatchOrthoLayer::BatchOrthoLayer(const BatchOrthoLayer& other) : options(other.options) {
  *this = other;
}

BatchOrthoLayer& BatchOrthoLayer::operator=(const BatchOrthoLayer& other) {
  options = other.options;
  frozen = other.frozen;
  own_ = std::make_unique<Own>(*other.own_);
  own_->stopped.clear();  // a copy's parameters learn as they are
  const std::vector<Tensor*> own = nn::tensors_of(*this);
  const std::vector<Tensor*> theirs = nn::tensors_of(const_cast<BatchOrthoLayer&>(other));
  for (size_t k = 0; k < own.size(); ++k) *own[k] = *theirs[k];
  return *this;
}

std::string BatchOrthoLayer::description() const {
  return layer_as_is(options, own_->dims).description();
}

BatchReport BatchOrthoLayer::last_batch() const {
  BatchReport out;
  const Tensor& tape = own_->tape;
  out.unfolded = own_->unfolded;
  if (!tape.defined()) return out;
  const auto* counts = tape.data_ptr<double>();
  out.samples = static_cast<int64_t>(counts[ops::samples]);
  out.floored = static_cast<int64_t>(counts[ops::floored]);
  out.null = static_cast<int64_t>(counts[ops::null]);
  out.empty = static_cast<int64_t>(counts[ops::empty]);
  out.exchanges = static_cast<int64_t>(counts[ops::exchanges]);
  std::tie(out.covariance, out.covariance_last) =
      ops::values::conditioned(tape, optional(weight), nn::Access::text(*this));
  return out;
}

namespace nn {

const std::string& Access::text(const BatchOrthoLayer& layer) {
  BatchOrthoLayer::Own& own = *layer.own_;
  ops::Layer now = layer_as_is(layer.options, own.dims);
  if (own.text.empty() || !(now == own.layer)) {
    own.text = now.text();
    own.layer = std::move(now);
  }
  return own.text;
}

Tensor Access::run(BatchOrthoLayer& layer, const Tensor& x, bool training,
                   const Consumed& consumed) {
  const std::string& text = Access::text(layer);
  const auto& [average, last] = statistic(layer);
  const bool learns = training && !layer.frozen;
  check_state(layer, text);
  if (!learns && layer.running_mean.defined())
    return ops::evaluate_operator().call(
        x, optional(layer.weight), optional(layer.bias), optional(layer.skew), layer.running_mean,
        average, optional(last), text, optional(consumed.read), optional(consumed.weight),
        optional(consumed.bias), consumed.convolution);
  const auto tracked = [&](const Tensor& t) { return learns ? optional(t) : c10::nullopt; };
  if (learns) ops::check_momentum(layer.options.momentum(), text);
  const auto [output, tape] = ops::step_operator().call(
      x, optional(layer.weight), optional(layer.bias), optional(layer.skew),
      tracked(layer.running_mean), tracked(average), tracked(last),
      tracked(layer.num_batches_tracked), layer.options.momentum(), text, optional(consumed.read),
      optional(consumed.weight), optional(consumed.bias), consumed.convolution);
  take_note(layer, tape);
  return output;
}

void Access::take_note(BatchOrthoLayer& layer, const Tensor& tape) {
  if (!tape.is_cpu()) return;  // of no values
  BatchOrthoLayer::Own& own = *layer.own_;
  const auto* counts = tape.data_ptr<double>();
  if (counts[ops::samples] == 0) return;
  own.tape = tape;
  own.unfolded += static_cast<int64_t>(counts[ops::unfolded]);
  if (own.warned) return;
  const std::string warning = ops::warning_of(*ops::layer_of(own.text), counts);
  if (warning.empty()) return;
  own.warned = true;
  TORCH_WARN(warning);
}

std::vector<Tensor> Access::average_map(BatchOrthoLayer& layer) {
  TORCH_CHECK(layer.running_mean.defined(), layer.description(),
              ": expected running statistics, but it keeps none: its output depends on the batch");
  const std::string& text = Access::text(layer);
  check_state(layer, text);
  const auto& [average, last] = statistic(layer);
  return ops::inference::average_map(optional(layer.weight), optional(layer.bias),
                                     optional(layer.skew), layer.running_mean, average,
                                     optional(last), text);
}

}  // namespace nn
}  // namespace orthobatch
