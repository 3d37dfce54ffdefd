// Derivatives of the operators, which are operators again: everything goes through the dispatcher,
// so what stands above it (functorch, tracing, fake tensors) sees each step. The nodes are made as
// torch makes its own: torch::autograd::Function refuses functorch's transforms. And autocast: the
// layers compute in float.

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/torch.h>
#include <torch/version.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>

#include "core/registry.h"
#include "ops/call.h"
#include "ops/operators.h"
#include "ops/torch_versions.h"

namespace orthobatch::ops::autograd {
namespace {

using torch::autograd::variable_list;

const auto& train_operator() {
  static const auto op = find_operator<Train>("orthobatch::train");
  return op;
}
const auto& backward_operator() {
  static const auto op = find_operator<Backward>("orthobatch::backward");
  return op;
}
const auto& track_operator() {
  static const auto op = find_operator<Track>("orthobatch::track_");
  return op;
}
const auto& average_map_operator() {
  static const auto op = find_operator<AverageMap>("orthobatch::average_map");
  return op;
}

/// The number of tensors that gradients go to.
constexpr size_t inputs = 7;

/// A step backward: the gradients of the inputs from that of the output. `saved` are the tensors
/// that were kept, undefined where there was none.
using Derive = std::function<variable_list(const Tensor& grad, const variable_list& saved,
                                           const Flags7& wanted)>;

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
    Flags7 wanted{};
    for (size_t k = 0; k < num_outputs(); ++k) wanted[k] = task_should_compute_output(k);
    variable_list out = derive_(grads[0], saved, wanted);
    for (size_t k = 0; k < num_outputs(); ++k)
      if (!wanted[k]) out[k] = Tensor();
    return out;
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
auto node_for(const char* name, Derive derive, const Inputs&... of) {
  const bool forward_mode = (torch::autograd::isFwGradDefined(of) || ...);
  TORCH_CHECK_NOT_IMPLEMENTED(!forward_mode, name,
                              ": expected to be differentiated backward; a derivative in forward "
                              "mode is not available");
  decltype(make_node<Derivative>(name, derive)) node;
  if (!torch::autograd::compute_requires_grad(of...)) return node;
  node = make_node<Derivative>(name, std::move(derive));
  node->set_next_edges(torch::autograd::collect_next_edges(of...));
  (node->keep(of), ...);
  return node;
}

/// All arguments of a call that are no tensors.
struct Constants {
  std::string layer;
  std::vector<int64_t> consumer;

  Constants(string_view text, at::IntArrayRef packed)
      : layer(text.data(), text.size()), consumer(packed.vec()) {}
};

variable_list call_backward(const Constants& c, const Tensor& grad, const variable_list& t,
                            const Flags7& wanted) {
  const auto [x, weight, bias, skew, read, consumer_weight, consumer_bias] =
      backward_operator().call(grad, t[0], optional(t[1]), optional(t[2]), optional(t[3]),
                               {t.data() + inputs, t.size() - inputs}, c.layer, optional(t[4]),
                               optional(t[5]), optional(t[6]), c.consumer, wanted);
  return {x, weight, bias, skew, read, consumer_weight, consumer_bias};
}

Derive derivative(Constants constants) {
  return
      [c = std::move(constants)](const Tensor& grad, const variable_list& t, const Flags7& wanted) {
        return call_backward(c, grad, t, wanted);
      };
}

// ------------------------------------------------------------------ derivatives of any order

/// W of specs with a rotation: (I − S)⁻¹ (I + S), S antisymmetric with `skew` below its diagonal.
Tensor rotation(const Tensor& skew, int64_t n) {
  const Tensor places = at::tril_indices(n, n, -1, at::TensorOptions(at::kLong));
  const Tensor lower = at::zeros({n, n}, skew.options()).index_put({places[0], places[1]}, skew);
  const Tensor S = lower - lower.t(), one = at::eye(n, skew.options());
  return at::linalg_solve(one - S, one + S);
}

/// Evaluation in torch's own operations, from a T that is a constant: what is differentiated where
/// the gradient itself needs one.
Tensor composed(const KnownLayer& layer, const variable_list& t, const Tensor& T) {
  const at::ScalarType type = t[0].scalar_type();
  const Tensor x = is_half(type) ? t[0].to(at::kFloat) : t[0];
  const Tensor &weight = t[1], &bias = t[2], &skew = t[3], &mean = t[inputs];
  Tensor P = T.to(x.options());
  if (skew.defined()) P = rotation(skew, layer.num_features).matmul(P);
  if (weight.defined()) P = weight.unsqueeze(1) * P;
  const Tensor rows = x.movedim(1, -1) - mean.to(x.options());
  const Tensor z = rows.matmul(P.t());
  return (bias.defined() ? z + bias : z).movedim(-1, 1).to(type);
}

Derive derivative_of_evaluation(Constants constants) {
  return [c = std::move(constants)](const Tensor& grad, const variable_list& t,
                                    const Flags7& wanted) -> variable_list {
    const auto layer = layer_of(c.layer);
    const bool scale_inside =
        core::find_method(layer->spec.method()).scale_inside && t[1].defined() && !t[3].defined();
    if (!torch::GradMode::is_enabled() || t[5].defined() || scale_inside)
      return call_backward(c, grad, t, wanted);
    OptionalTensor no_skew;
    if (t[3].defined()) no_skew = at::zeros_like(t[3]);
    const Tensor last = t.size() > inputs + 2 ? t[inputs + 2] : Tensor();
    const Tensor T = average_map_operator().call(
        {}, {}, no_skew, t[inputs].detach(), t[inputs + 1].detach(), optional(last), c.layer)[0];
    variable_list of;
    std::vector<size_t> places;
    for (size_t k = 0; k < 4; ++k)
      if (wanted[k]) {
        of.push_back(t[k]);
        places.push_back(k);
      }
    const variable_list found =
        torch::autograd::grad({composed(*layer, t, T)}, of, {grad}, /*retain_graph=*/true,
                              /*create_graph=*/true, /*allow_unused=*/true);
    variable_list out(inputs);
    for (size_t k = 0; k < found.size(); ++k) out[places[k]] = found[k];
    return out;
  };
}

/// It would silently leave out the statistics: say so when it is asked for.
Derive refusal(string_view layer) {
  return [text = std::string(layer.data(), layer.size())](const Tensor&, const variable_list&,
                                                          const Flags7&) -> variable_list {
    TORCH_CHECK(false, text,
                ": expected to be differentiated once; a second derivative is not available in "
                "training or through folded weights");
  };
}

}  // namespace

// ---------------------------------------------------------------------------------- operators

/// The statistics of a batch have no history: the layer's gradient has them in it.
Tensors2 train(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
               const OptionalTensor& skew, string_view layer, const OptionalTensor& read,
               const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
               at::IntArrayRef consumer) {
  const auto node =
      node_for("OrthobatchTrain", derivative({layer, consumer}), x, value_or_none(weight),
               value_or_none(bias), value_or_none(skew), value_or_none(read),
               value_or_none(consumer_weight), value_or_none(consumer_bias));
  Tensors2 out = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return train_operator().call(x, weight, bias, skew, layer, read, consumer_weight, consumer_bias,
                                 consumer);
  }();
  if (node) {
    node->keep(std::get<1>(out));
    torch::autograd::set_history(std::get<0>(out), node);
  }
  return out;
}

Tensor evaluate(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                const OptionalTensor& last, string_view layer, const OptionalTensor& read,
                const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
                at::IntArrayRef consumer) {
  const auto node =
      node_for("OrthobatchEvaluate", derivative_of_evaluation({layer, consumer}), x,
               value_or_none(weight), value_or_none(bias), value_or_none(skew), value_or_none(read),
               value_or_none(consumer_weight), value_or_none(consumer_bias));
  Tensor z = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return evaluate_operator().call(x, weight, bias, skew, mean, statistic, last, layer, read,
                                    consumer_weight, consumer_bias, consumer);
  }();
  if (node) {
    node->keep(mean);
    node->keep(statistic);
    if (last.has_value()) node->keep(*last);
    torch::autograd::set_history(z, node);
  }
  return z;
}

Tensors7 backward(const Tensor& grad, const Tensor& x, const OptionalTensor& weight,
                  const OptionalTensor& bias, const OptionalTensor& skew, at::TensorList statistics,
                  string_view layer, const OptionalTensor& read,
                  const OptionalTensor& consumer_weight, const OptionalTensor& consumer_bias,
                  at::IntArrayRef consumer, Flags7 wanted) {
  const auto node = node_for("OrthobatchBackward", refusal(layer), x, value_or_none(weight),
                             value_or_none(bias), value_or_none(skew),
                             value_or_none(consumer_weight), value_or_none(consumer_bias), grad);
  Tensors7 out = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return backward_operator().call(grad, x, weight, bias, skew, statistics, layer, read,
                                    consumer_weight, consumer_bias, consumer, wanted);
  }();
  if (node) std::apply([&](auto&... t) { (torch::autograd::set_history(t, node), ...); }, out);
  return out;
}

/// The versions of what is changed in place count on.
void track(const Tensor& mean, const Tensor& statistic, const OptionalTensor& last,
           const Tensor& count, const OptionalTensor& weight, const Tensor& tape,
           c10::optional<double> momentum, string_view layer) {
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    track_operator().call(mean, statistic, last, count, weight, tape, momentum, layer);
  }
  for (const Tensor& changed : {mean, statistic, value_or_none(last), count})
    if (changed.defined() && !changed.is_inference()) changed.unsafeGetTensorImpl()->bump_version();
}

/// Made of the others, so that nothing else need know of it.
Tensors2 step(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
              const OptionalTensor& skew, const OptionalTensor& mean,
              const OptionalTensor& statistic, const OptionalTensor& last,
              const OptionalTensor& count, c10::optional<double> momentum, string_view layer,
              const OptionalTensor& read, const OptionalTensor& consumer_weight,
              const OptionalTensor& consumer_bias, at::IntArrayRef consumer) {
  Tensors2 out = train_operator().call(x, weight, bias, skew, layer, read, consumer_weight,
                                       consumer_bias, consumer);
  if (mean.has_value() && statistic.has_value() && count.has_value())
    track_operator().call(*mean, *statistic, last, *count, weight, std::get<1>(out), momentum,
                          layer);
  return out;
}

Tensors2 whitening_matrix(const Tensor& covariance, string_view spec) {
  static const auto forward = find_operator<WhiteningMatrix>("orthobatch::whitening_matrix");
  static const auto backward =
      find_operator<WhiteningMatrixBackward>("orthobatch::whitening_matrix_backward");
  const auto node = node_for(
      "OrthobatchWhiteningMatrix",
      [text = std::string(spec.data(), spec.size())](const Tensor& grad, const variable_list& t,
                                                     const Flags7&) -> variable_list {
        return {backward.call(grad, t[0], t[1], text)};
      },
      covariance);
  Tensors2 out = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return forward.call(covariance, spec);
  }();
  if (node) {
    node->keep(std::get<1>(out));
    torch::autograd::set_history(std::get<0>(out), node);
  }
  return out;
}

Tensor whitening_matrix_backward(const Tensor& grad, const Tensor& covariance, const Tensor& tape,
                                 string_view spec) {
  static const auto op =
      find_operator<WhiteningMatrixBackward>("orthobatch::whitening_matrix_backward");
  const auto node =
      node_for("OrthobatchWhiteningMatrixBackward", refusal("whitening_matrix"), grad, covariance);
  Tensor out = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return op.call(grad, covariance, tape, spec);
  }();
  if (node) torch::autograd::set_history(out, node);
  return out;
}

// ------------------------------------------------------------------------------------ autocast

namespace {

at::ScalarType autocast_type(const Tensor& t) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  return at::autocast::get_autocast_dtype(t.device().type());
#else
  return t.is_cpu() ? at::autocast::get_autocast_cpu_dtype()
                    : at::autocast::get_autocast_gpu_dtype();
#endif
}

/// Where it is a tensor in float or half precision, in that type.
void cast(c10::IValue& value, at::ScalarType type) {
  if (!value.isTensor() || !value.toTensor().defined()) return;
  const Tensor& t = value.toTensor();
  if (t.scalar_type() == at::kFloat || is_half(t.scalar_type())) value = t.to(type);
}

}  // namespace

void refuse_vmap(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK(
      false,
      "vmap: expected a layer in evaluation or without running averages, got one in training: "
      "each slice has statistics of its own, and the averages cannot follow all of them; call "
      "functional.batch_ortho without running averages, or functional.whiten");
}

/// The layer in float; what consumes its output as torch's own autocast has it, and then x as it came.
void autocast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(arguments.size());
  const auto place = [&](const char* name) { return *op.schema().argumentIndexWithName(name); };
  const Tensor x = first[0].toTensor();
  const bool consumed =
      first[place("consumer_weight")].isTensor() && x.scalar_type() != at::kDouble;
  if (consumed)
    for (const char* name : {"consumer_weight", "consumer_bias"})
      cast(first[place(name)], autocast_type(x));
  for (const char* name : {"x", "read", "weight", "bias", "skew"})
    if (!consumed || (name[0] != 'x' && name[0] != 'r')) cast(first[place(name)], at::kFloat);
  op.callBoxed(stack);
}

}  // namespace orthobatch::ops::autograd
