// Derivatives of the operators, which are operators again: everything goes through the dispatcher,
// so what stands above it (functorch, tracing, fake tensors) sees each step. The nodes are made as
// torch makes its own: torch::autograd::Function refuses functorch's transforms. And autocast: the
// layers compute in float.

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>

#include "ops/operators.h"

namespace orthobatch::ops::autograd {
namespace {

using torch::autograd::variable_list;

/// The operator of that name.
template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

const auto& train_operator() {
  static const auto op = find<Train>("orthobatch::train");
  return op;
}
const auto& evaluate_operator() {
  static const auto op = find<Evaluate>("orthobatch::evaluate");
  return op;
}
const auto& backward_operator() {
  static const auto op = find<Backward>("orthobatch::backward");
  return op;
}
const auto& track_operator() {
  static const auto op = find<Track>("orthobatch::track_");
  return op;
}
const auto& folded_train_operator() {
  static const auto op = find<FoldedTrain>("orthobatch::folded_train");
  return op;
}
const auto& folded_evaluate_operator() {
  static const auto op = find<FoldedEvaluate>("orthobatch::folded_evaluate");
  return op;
}
const auto& folded_backward_operator() {
  static const auto op = find<FoldedBackward>("orthobatch::folded_backward");
  return op;
}

// --------------------------------------------------------------------------------------- nodes

/// A step backward: the gradients of the inputs from that of the output. `saved` are the tensors
/// that were kept, undefined where there was none.
using Derive = std::function<variable_list(const Tensor& grad, const variable_list& saved,
                                           const std::vector<bool>& wanted)>;

class Derivative : public torch::autograd::Node {
 public:
  Derivative(const char* name, Derive derive) : name_(name), derive_(std::move(derive)) {}

  void keep(const Tensor& t) { saved_.emplace_back(t, /*is_output=*/false); }

  variable_list apply(variable_list&& grads) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto defined = [](const Tensor& t) { return t.defined(); };
    if (std::none_of(grads.begin(), grads.end(), defined)) return variable_list(num_outputs());
    variable_list saved;
    for (const auto& s : saved_) saved.push_back(s.unpack());
    std::vector<bool> wanted;
    for (size_t k = 0; k < num_outputs(); ++k) wanted.push_back(task_should_compute_output(k));
    return derive_(grads[0], saved, wanted);
  }
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& s : saved_) s.reset_data();
  }
  std::string name() const override { return name_; }

 private:
  const char* name_;
  Derive derive_;
  std::vector<torch::autograd::SavedVariable> saved_;
};

/// A node for an operator of those inputs, its edges in their order; null where none needs a
/// gradient.
template <typename... Inputs>
std::shared_ptr<Derivative> node_for(const char* name, Derive derive, const Inputs&... inputs) {
  const bool forward_mode = (torch::autograd::isFwGradDefined(inputs) || ...);
  TORCH_CHECK_NOT_IMPLEMENTED(!forward_mode, name,
                              ": expected to be differentiated backward; a derivative in forward "
                              "mode is not available");
  if (!torch::autograd::compute_requires_grad(inputs...)) return nullptr;
  std::shared_ptr<Derivative> node(new Derivative(name, std::move(derive)),
                                   torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  (node->keep(inputs), ...);
  return node;
}

template <size_t N>
std::array<bool, N> as_array(const std::vector<bool>& wanted) {
  std::array<bool, N> out;
  for (size_t k = 0; k < N; ++k) out[k] = wanted[k];
  return out;
}
/// Undefined where it was not wanted, as autograd has it.
variable_list only(variable_list all, const std::vector<bool>& wanted) {
  for (size_t k = 0; k < all.size(); ++k)
    if (!wanted[k]) all[k] = Tensor();
  return all;
}

OptionalTensor optional(const Tensor& t) {
  return t.defined() ? OptionalTensor(t) : OptionalTensor();
}
/// What was kept behind the first `inputs`.
at::TensorList rest(const variable_list& saved, size_t inputs) {
  return {saved.data() + inputs, saved.size() - inputs};
}

/// What names a layer, and how it is run: all that is no tensor.
struct Arguments {
  std::string spec, name;
  int64_t channels, dims, sample_stride;
  bool transform;

  Arguments(string_view s, int64_t c, int64_t d, int64_t stride, bool t, string_view n)
      : spec(s.data(), s.size()),
        name(n.data(), n.size()),
        channels(c),
        dims(d),
        sample_stride(stride),
        transform(t) {}
};
/// What reads it.
struct ReaderArguments {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
  bool zeros;
};

// ---------------------------------------------------------------------------------- the layer

Derive layer_derivative(Arguments a) {
  return [a = std::move(a)](const Tensor& grad, const variable_list& t,
                            const std::vector<bool>& wanted) {
    const auto [x, weight, bias, skew] = backward_operator().call(
        grad, t[0], optional(t[1]), optional(t[2]), optional(t[3]), rest(t, 4), a.spec, a.channels,
        a.dims, a.sample_stride, a.transform, a.name, as_array<4>(wanted));
    return only({x, weight, bias, skew}, wanted);
  };
}

/// The statistics of a batch have no history: the layer's gradient has them in it.
Tensors6 train(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
               const OptionalTensor& skew, string_view spec, int64_t channels, int64_t dims,
               int64_t sample_stride, bool transform, string_view name) {
  const auto node = node_for(
      "OrthobatchTrain", layer_derivative({spec, channels, dims, sample_stride, transform, name}),
      x, value_or_none(weight), value_or_none(bias), value_or_none(skew));
  Tensors6 out = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return train_operator().call(x, weight, bias, skew, spec, channels, dims, sample_stride,
                                 transform, name);
  }();
  if (node) {
    node->keep(std::get<5>(out));
    torch::autograd::set_history(std::get<0>(out), node);
  }
  return out;
}

Tensor evaluate(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                string_view spec, int64_t channels, int64_t dims, bool transform,
                string_view name) {
  const auto node =
      node_for("OrthobatchEvaluate", layer_derivative({spec, channels, dims, 1, transform, name}),
               x, value_or_none(weight), value_or_none(bias), value_or_none(skew));
  Tensor z = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return evaluate_operator().call(x, weight, bias, skew, mean, statistic, spec, channels, dims,
                                    transform, name);
  }();
  if (node) {
    node->keep(mean);
    node->keep(statistic);
    torch::autograd::set_history(z, node);
  }
  return z;
}

/// The versions of what is changed in place count on.
void track(Tensor mean, Tensor statistic, Tensor count, const Tensor& batch_mean,
           const Tensor& batch_statistic, const Tensor& report, c10::optional<double> momentum,
           bool unbiased) {
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    track_operator().call(mean, statistic, count, batch_mean, batch_statistic, report, momentum,
                          unbiased);
  }
  for (const Tensor& changed : {mean, statistic, count})
    if (!changed.is_inference()) changed.unsafeGetTensorImpl()->bump_version();
}

/// Made of the others, so that nothing else need know of it.
std::tuple<Tensor, Tensor, Tensor> step(const Tensor& x, const OptionalTensor& weight,
                                        const OptionalTensor& bias, const OptionalTensor& skew,
                                        const OptionalTensor& mean, const OptionalTensor& statistic,
                                        const OptionalTensor& count, c10::optional<double> momentum,
                                        string_view spec, int64_t channels, int64_t dims,
                                        int64_t sample_stride, bool transform, bool unbiased,
                                        string_view name) {
  const auto [z, batch_mean, covariance, T, report, tape] = train_operator().call(
      x, weight, bias, skew, spec, channels, dims, sample_stride, transform, name);
  if (mean.has_value() && statistic.has_value() && count.has_value())
    track_operator().call(*mean, *statistic, *count, batch_mean, transform ? T : covariance, report,
                          momentum, unbiased);
  return {z, covariance, report};
}

// ----------------------------------------------------------------- folded into what reads it

Derive folded_derivative(Arguments a, ReaderArguments r) {
  return [a = std::move(a), r = std::move(r)](const Tensor& grad, const variable_list& t,
                                              const std::vector<bool>& wanted) {
    const auto [x, read, gamma, b, skew, weight, bias] = folded_backward_operator().call(
        grad, t[0], optional(t[1]), optional(t[2]), optional(t[3]), optional(t[4]), t[5],
        optional(t[6]), rest(t, 7), r.stride, r.padding, r.dilation, r.groups, r.zeros, a.spec,
        a.channels, a.dims, a.sample_stride, a.transform, a.name, as_array<7>(wanted));
    return only({x, read, gamma, b, skew, weight, bias}, wanted);
  };
}

Tensors6 folded_train(const Tensor& x, const OptionalTensor& read, const OptionalTensor& weight,
                      const OptionalTensor& bias, const OptionalTensor& skew,
                      const Tensor& reader_weight, const OptionalTensor& reader_bias,
                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                      int64_t groups, bool zeros, string_view spec, int64_t channels, int64_t dims,
                      int64_t sample_stride, bool transform, string_view name) {
  const auto node =
      node_for("OrthobatchFoldedTrain",
               folded_derivative({spec, channels, dims, sample_stride, transform, name},
                                 {stride.vec(), padding.vec(), dilation.vec(), groups, zeros}),
               x, value_or_none(read), value_or_none(weight), value_or_none(bias),
               value_or_none(skew), reader_weight, value_or_none(reader_bias));
  Tensors6 out = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return folded_train_operator().call(x, read, weight, bias, skew, reader_weight, reader_bias,
                                        stride, padding, dilation, groups, zeros, spec, channels,
                                        dims, sample_stride, transform, name);
  }();
  if (node) {
    node->keep(std::get<5>(out));
    torch::autograd::set_history(std::get<0>(out), node);
  }
  return out;
}

Tensor folded_evaluate(const Tensor& x, const OptionalTensor& read, const OptionalTensor& weight,
                       const OptionalTensor& bias, const OptionalTensor& skew,
                       const Tensor& reader_weight, const OptionalTensor& reader_bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                       int64_t groups, bool zeros, const Tensor& mean, const Tensor& statistic,
                       string_view spec, int64_t channels, int64_t dims, bool transform,
                       string_view name) {
  const auto node =
      node_for("OrthobatchFoldedEvaluate",
               folded_derivative({spec, channels, dims, 1, transform, name},
                                 {stride.vec(), padding.vec(), dilation.vec(), groups, zeros}),
               x, value_or_none(read), value_or_none(weight), value_or_none(bias),
               value_or_none(skew), reader_weight, value_or_none(reader_bias));
  Tensor y = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return folded_evaluate_operator().call(x, read, weight, bias, skew, reader_weight, reader_bias,
                                           stride, padding, dilation, groups, zeros, mean,
                                           statistic, spec, channels, dims, transform, name);
  }();
  if (node) {
    node->keep(mean);
    node->keep(statistic);
    torch::autograd::set_history(y, node);
  }
  return y;
}

// -------------------------------------------------------------------------- second derivatives

/// It would silently leave out the statistics: say so when it is asked for.
Derive refusal(string_view spec) {
  return [spec = std::string(spec.data(), spec.size())](const Tensor&, const variable_list&,
                                                        const std::vector<bool>&) -> variable_list {
    TORCH_CHECK(false, spec,
                ": expected to be differentiated once; a second derivative is not available");
  };
}

template <typename Tuple, typename Node>
void give_history(Tuple& tensors, const Node& node) {
  std::apply([&](auto&... t) { (torch::autograd::set_history(t, node), ...); }, tensors);
}

Tensors4 backward(const Tensor& grad, const Tensor& x, const OptionalTensor& weight,
                  const OptionalTensor& bias, const OptionalTensor& skew, at::TensorList statistics,
                  string_view spec, int64_t channels, int64_t dims, int64_t sample_stride,
                  bool transform, string_view name, std::array<bool, 4> wanted) {
  const auto node = node_for("OrthobatchBackward", refusal(spec), grad, x, value_or_none(weight),
                             value_or_none(bias), value_or_none(skew));
  Tensors4 out = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return backward_operator().call(grad, x, weight, bias, skew, statistics, spec, channels, dims,
                                    sample_stride, transform, name, wanted);
  }();
  if (node) give_history(out, node);
  return out;
}

Tensors7 folded_backward(const Tensor& grad, const Tensor& x, const OptionalTensor& read,
                         const OptionalTensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& skew, const Tensor& reader_weight,
                         const OptionalTensor& reader_bias, at::TensorList statistics,
                         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                         int64_t groups, bool zeros, string_view spec, int64_t channels,
                         int64_t dims, int64_t sample_stride, bool transform, string_view name,
                         std::array<bool, 7> wanted) {
  const auto node = node_for("OrthobatchFoldedBackward", refusal(spec), grad, x,
                             value_or_none(read), value_or_none(weight), value_or_none(bias),
                             value_or_none(skew), reader_weight, value_or_none(reader_bias));
  Tensors7 out = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return folded_backward_operator().call(
        grad, x, read, weight, bias, skew, reader_weight, reader_bias, statistics, stride, padding,
        dilation, groups, zeros, spec, channels, dims, sample_stride, transform, name, wanted);
  }();
  if (node) give_history(out, node);
  return out;
}

// ------------------------------------------------------------------------------------ autocast

Tensor in_float(const Tensor& t) {
  return t.defined() && (t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16)
             ? t.to(at::kFloat)
             : t;
}
OptionalTensor in_float(const OptionalTensor& t) {
  return t.has_value() ? OptionalTensor(in_float(*t)) : t;
}
/// Arguments that are no tensors stay as they are.
template <typename Argument>
const Argument& in_float(const Argument& a) {
  return a;
}

constexpr auto autocasts =
    c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA});

Tensors6 autocast_train(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                        const OptionalTensor& skew, string_view spec, int64_t channels,
                        int64_t dims, int64_t sample_stride, bool transform, string_view name) {
  const c10::impl::ExcludeDispatchKeyGuard below(autocasts);
  return train_operator().call(in_float(x), in_float(weight), in_float(bias), in_float(skew), spec,
                               channels, dims, sample_stride, transform, name);
}

Tensor autocast_evaluate(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                         string_view spec, int64_t channels, int64_t dims, bool transform,
                         string_view name) {
  const c10::impl::ExcludeDispatchKeyGuard below(autocasts);
  return evaluate_operator().call(in_float(x), in_float(weight), in_float(bias), in_float(skew),
                                  in_float(mean), statistic, spec, channels, dims, transform, name);
}

Tensors6 autocast_folded_train(const Tensor& x, const OptionalTensor& read,
                               const OptionalTensor& weight, const OptionalTensor& bias,
                               const OptionalTensor& skew, const Tensor& reader_weight,
                               const OptionalTensor& reader_bias, at::IntArrayRef stride,
                               at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                               bool zeros, string_view spec, int64_t channels, int64_t dims,
                               int64_t sample_stride, bool transform, string_view name) {
  const c10::impl::ExcludeDispatchKeyGuard below(autocasts);
  return folded_train_operator().call(in_float(x), in_float(read), in_float(weight), in_float(bias),
                                      in_float(skew), in_float(reader_weight),
                                      in_float(reader_bias), stride, padding, dilation, groups,
                                      zeros, spec, channels, dims, sample_stride, transform, name);
}

Tensor autocast_folded_evaluate(const Tensor& x, const OptionalTensor& read,
                                const OptionalTensor& weight, const OptionalTensor& bias,
                                const OptionalTensor& skew, const Tensor& reader_weight,
                                const OptionalTensor& reader_bias, at::IntArrayRef stride,
                                at::IntArrayRef padding, at::IntArrayRef dilation, int64_t groups,
                                bool zeros, const Tensor& mean, const Tensor& statistic,
                                string_view spec, int64_t channels, int64_t dims, bool transform,
                                string_view name) {
  const c10::impl::ExcludeDispatchKeyGuard below(autocasts);
  return folded_evaluate_operator().call(
      in_float(x), in_float(read), in_float(weight), in_float(bias), in_float(skew),
      in_float(reader_weight), in_float(reader_bias), stride, padding, dilation, groups, zeros,
      in_float(mean), statistic, spec, channels, dims, transform, name);
}

void register_autocast(torch::Library& m) {
  m.impl("train", autocast_train);
  m.impl("evaluate", autocast_evaluate);
  m.impl("folded_train", autocast_folded_train);
  m.impl("folded_evaluate", autocast_folded_evaluate);
}

}  // namespace
}  // namespace orthobatch::ops::autograd

TORCH_LIBRARY_IMPL(orthobatch, CompositeImplicitAutograd, m) {
  m.impl("step_", orthobatch::ops::autograd::step);
}

TORCH_LIBRARY_IMPL(orthobatch, Autograd, m) {
  using namespace orthobatch::ops::autograd;
  m.impl("train", train);
  m.impl("evaluate", evaluate);
  m.impl("backward", backward);
  m.impl("folded_train", folded_train);
  m.impl("folded_evaluate", folded_evaluate);
  m.impl("folded_backward", folded_backward);
  m.impl("track_", torch::CppFunction::makeFallthrough());  // of constants
  for (const char* part : {"statistics", "merge", "train_on", "sums", "backward_on", "condition"})
    m.impl(part, torch::autograd::autogradNotImplementedFallback());
  m.impl("average_map", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(orthobatch, ADInplaceOrView, m) {
  m.impl("track_", orthobatch::ops::autograd::track);
}

TORCH_LIBRARY_IMPL(orthobatch, AutocastCPU, m) { orthobatch::ops::autograd::register_autocast(m); }
TORCH_LIBRARY_IMPL(orthobatch, Autocast, m) { orthobatch::ops::autograd::register_autocast(m); }
