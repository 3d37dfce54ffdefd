// Derivatives of the operators, which are operators again: everything goes through the dispatcher,
// so what stands above it (functorch, tracing, fake tensors) sees each step. And autocast: the
// layers compute in float.

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "nn/autograd.h"
#include "ops/operators.h"

namespace orthobatch::ops::autograd {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// The operator of that name, below what is being done.
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

/// The empty constant that stands for an absent tensor in what autograd keeps, and back. No
/// operator ever sees it.
Tensor present(const OptionalTensor& t) {
  static const Tensor* const none = new Tensor(at::empty({0}));
  return t.has_value() ? *t : *none;
}
OptionalTensor absent(const Tensor& t) {
  return t.dim() == 1 && t.numel() == 0 ? OptionalTensor() : OptionalTensor(t);
}

/// What names a layer, and how it is run: all that is no tensor.
struct Arguments {
  std::string spec, name;
  int64_t channels, dims, sample_stride;
  bool transform;
};
/// What reads it.
struct ReaderArguments {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
  bool zeros;
};

std::string text(string_view s) { return {s.data(), s.size()}; }

template <typename Value>
void keep(AutogradContext* ctx, const char* name, Value value) {
  ctx->saved_data[name] =
      c10::IValue::make_capsule(c10::make_intrusive<nn::KeptCall<Value>>(std::move(value)));
}
template <typename Value>
const Value& kept(AutogradContext* ctx, const char* name) {
  return static_cast<const nn::KeptCall<Value>*>(ctx->saved_data[name].toCapsule().get())->call;
}

template <size_t N>
std::array<bool, N> wanted_of(AutogradContext* ctx) {
  std::array<bool, N> out;
  for (size_t k = 0; k < N; ++k) out[k] = ctx->needs_input_grad(k);
  return out;
}
/// Undefined where it was not wanted, as autograd has it.
template <size_t N>
variable_list gradients(std::array<Tensor, N> all, const std::array<bool, N>& wanted,
                        size_t inputs) {
  variable_list out(inputs);
  for (size_t k = 0; k < N; ++k)
    if (wanted[k]) out[k] = std::move(all[k]);
  return out;
}

variable_list list_of(const Tensors6& t) {
  return {std::get<0>(t), std::get<1>(t), std::get<2>(t),
          std::get<3>(t), std::get<4>(t), std::get<5>(t)};
}
Tensors6 tuple_of(const variable_list& l) { return {l[0], l[1], l[2], l[3], l[4], l[5]}; }

/// The statistics of a batch are no function to differentiate: the layer's gradient has them.
void mark_statistics(AutogradContext* ctx, const variable_list& outputs) {
  ctx->mark_non_differentiable({outputs.begin() + 1, outputs.end()});
  ctx->set_materialize_grads(false);  // they would get zeros
}

// ---------------------------------------------------------------------------------- the layer

variable_list layer_backward(AutogradContext* ctx, const Tensor& grad, size_t inputs) {
  const auto& a = kept<Arguments>(ctx, "layer");
  const variable_list t = ctx->get_saved_variables();
  const std::array<bool, 4> wanted = wanted_of<4>(ctx);
  const auto [x, weight, bias, skew] =
      backward_operator().call(grad, t[0], absent(t[1]), absent(t[2]), absent(t[3]),
                               at::TensorList(t.data() + 4, t.size() - 4), a.spec, a.channels,
                               a.dims, a.sample_stride, a.transform, a.name, wanted);
  return gradients<4>({x, weight, bias, skew}, wanted, inputs);
}

struct TrainFunction : Function<TrainFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor& skew, Arguments a) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const variable_list out =
        list_of(train_operator().call(x, absent(weight), absent(bias), absent(skew), a.spec,
                                      a.channels, a.dims, a.sample_stride, a.transform, a.name));
    mark_statistics(ctx, out);
    ctx->save_for_backward({x, weight, bias, skew, out[5]});
    keep(ctx, "layer", std::move(a));
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return layer_backward(ctx, grads[0], 5);
  }
};

Tensors6 train(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
               const OptionalTensor& skew, string_view spec, int64_t channels, int64_t dims,
               int64_t sample_stride, bool transform, string_view name) {
  return tuple_of(TrainFunction::apply(
      x, present(weight), present(bias), present(skew),
      Arguments{text(spec), text(name), channels, dims, sample_stride, transform}));
}

struct EvaluateFunction : Function<EvaluateFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& skew, const Tensor& mean,
                        const Tensor& statistic, Arguments a) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor z =
        evaluate_operator().call(x, absent(weight), absent(bias), absent(skew), mean, statistic,
                                 a.spec, a.channels, a.dims, a.transform, a.name);
    ctx->save_for_backward({x, weight, bias, skew, mean, statistic});
    keep(ctx, "layer", std::move(a));
    return z;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return layer_backward(ctx, grads[0], 7);
  }
};

Tensor evaluate(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                const OptionalTensor& skew, const Tensor& mean, const Tensor& statistic,
                string_view spec, int64_t channels, int64_t dims, bool transform,
                string_view name) {
  return EvaluateFunction::apply(x, present(weight), present(bias), present(skew), mean, statistic,
                                 Arguments{text(spec), text(name), channels, dims, 1, transform});
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

variable_list folded_layer_backward(AutogradContext* ctx, const Tensor& grad, size_t inputs) {
  const auto& a = kept<Arguments>(ctx, "layer");
  const auto& r = kept<ReaderArguments>(ctx, "reader");
  const variable_list t = ctx->get_saved_variables();
  const std::array<bool, 7> wanted = wanted_of<7>(ctx);
  const auto [x, read, gamma, b, skew, weight, bias] = folded_backward_operator().call(
      grad, t[0], absent(t[1]), absent(t[2]), absent(t[3]), absent(t[4]), t[5], absent(t[6]),
      at::TensorList(t.data() + 7, t.size() - 7), r.stride, r.padding, r.dilation, r.groups,
      r.zeros, a.spec, a.channels, a.dims, a.sample_stride, a.transform, a.name, wanted);
  return gradients<7>({x, read, gamma, b, skew, weight, bias}, wanted, inputs);
}

struct FoldedTrainFunction : Function<FoldedTrainFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& read,
                               const Tensor& gamma, const Tensor& b, const Tensor& skew,
                               const Tensor& weight, const Tensor& bias, Arguments a,
                               ReaderArguments r) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const variable_list out = list_of(folded_train_operator().call(
        x, absent(read), absent(gamma), absent(b), absent(skew), weight, absent(bias), r.stride,
        r.padding, r.dilation, r.groups, r.zeros, a.spec, a.channels, a.dims, a.sample_stride,
        a.transform, a.name));
    mark_statistics(ctx, out);
    ctx->save_for_backward({x, read, gamma, b, skew, weight, bias, out[5]});
    keep(ctx, "layer", std::move(a));
    keep(ctx, "reader", std::move(r));
    return out;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return folded_layer_backward(ctx, grads[0], 9);
  }
};

Tensors6 folded_train(const Tensor& x, const OptionalTensor& read, const OptionalTensor& weight,
                      const OptionalTensor& bias, const OptionalTensor& skew,
                      const Tensor& reader_weight, const OptionalTensor& reader_bias,
                      at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                      int64_t groups, bool zeros, string_view spec, int64_t channels, int64_t dims,
                      int64_t sample_stride, bool transform, string_view name) {
  return tuple_of(FoldedTrainFunction::apply(
      x, present(read), present(weight), present(bias), present(skew), reader_weight,
      present(reader_bias),
      Arguments{text(spec), text(name), channels, dims, sample_stride, transform},
      ReaderArguments{stride.vec(), padding.vec(), dilation.vec(), groups, zeros}));
}

struct FoldedEvaluateFunction : Function<FoldedEvaluateFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& read,
                        const Tensor& gamma, const Tensor& b, const Tensor& skew,
                        const Tensor& weight, const Tensor& bias, const Tensor& mean,
                        const Tensor& statistic, Arguments a, ReaderArguments r) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor y = folded_evaluate_operator().call(
        x, absent(read), absent(gamma), absent(b), absent(skew), weight, absent(bias), r.stride,
        r.padding, r.dilation, r.groups, r.zeros, mean, statistic, a.spec, a.channels, a.dims,
        a.transform, a.name);
    ctx->save_for_backward({x, read, gamma, b, skew, weight, bias, mean, statistic});
    keep(ctx, "layer", std::move(a));
    keep(ctx, "reader", std::move(r));
    return y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return folded_layer_backward(ctx, grads[0], 11);
  }
};

Tensor folded_evaluate(const Tensor& x, const OptionalTensor& read, const OptionalTensor& weight,
                       const OptionalTensor& bias, const OptionalTensor& skew,
                       const Tensor& reader_weight, const OptionalTensor& reader_bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                       int64_t groups, bool zeros, const Tensor& mean, const Tensor& statistic,
                       string_view spec, int64_t channels, int64_t dims, bool transform,
                       string_view name) {
  return FoldedEvaluateFunction::apply(
      x, present(read), present(weight), present(bias), present(skew), reader_weight,
      present(reader_bias), mean, statistic,
      Arguments{text(spec), text(name), channels, dims, 1, transform},
      ReaderArguments{stride.vec(), padding.vec(), dilation.vec(), groups, zeros});
}

// -------------------------------------------------------------------------- second derivatives

[[noreturn]] void refuse(const std::string& spec) {
  TORCH_CHECK(false, spec,
              ": expected to be differentiated once; a second derivative is not available");
}

struct BackwardFunction : Function<BackwardFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& grad, const Tensor& x,
                               const Tensor& weight, const Tensor& bias, const Tensor& skew,
                               const variable_list& statistics, Arguments a,
                               std::array<bool, 4> wanted) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [dx, dweight, dbias, dskew] = backward_operator().call(
        grad, x, absent(weight), absent(bias), absent(skew), statistics, a.spec, a.channels, a.dims,
        a.sample_stride, a.transform, a.name, wanted);
    ctx->saved_data["spec"] = a.spec;
    return {dx, dweight, dbias, dskew};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list&) {
    refuse(ctx->saved_data["spec"].toStringRef());
  }
};

Tensors4 backward(const Tensor& grad, const Tensor& x, const OptionalTensor& weight,
                  const OptionalTensor& bias, const OptionalTensor& skew, at::TensorList statistics,
                  string_view spec, int64_t channels, int64_t dims, int64_t sample_stride,
                  bool transform, string_view name, std::array<bool, 4> wanted) {
  if (!torch::GradMode::is_enabled()) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return backward_operator().call(grad, x, weight, bias, skew, statistics, spec, channels, dims,
                                    sample_stride, transform, name, wanted);
  }
  const variable_list d = BackwardFunction::apply(
      grad, x, present(weight), present(bias), present(skew), statistics.vec(),
      Arguments{text(spec), text(name), channels, dims, sample_stride, transform}, wanted);
  return {d[0], d[1], d[2], d[3]};
}

struct FoldedBackwardFunction : Function<FoldedBackwardFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& grad, const Tensor& x,
                               const Tensor& read, const Tensor& gamma, const Tensor& b,
                               const Tensor& skew, const Tensor& weight, const Tensor& bias,
                               const variable_list& statistics, Arguments a, ReaderArguments r,
                               std::array<bool, 7> wanted) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [dx, dread, dgamma, db, dskew, dweight, dbias] = folded_backward_operator().call(
        grad, x, absent(read), absent(gamma), absent(b), absent(skew), weight, absent(bias),
        statistics, r.stride, r.padding, r.dilation, r.groups, r.zeros, a.spec, a.channels, a.dims,
        a.sample_stride, a.transform, a.name, wanted);
    ctx->saved_data["spec"] = a.spec;
    return {dx, dread, dgamma, db, dskew, dweight, dbias};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list&) {
    refuse(ctx->saved_data["spec"].toStringRef());
  }
};

Tensors7 folded_backward(const Tensor& grad, const Tensor& x, const OptionalTensor& read,
                         const OptionalTensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& skew, const Tensor& reader_weight,
                         const OptionalTensor& reader_bias, at::TensorList statistics,
                         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                         int64_t groups, bool zeros, string_view spec, int64_t channels,
                         int64_t dims, int64_t sample_stride, bool transform, string_view name,
                         std::array<bool, 7> wanted) {
  if (!torch::GradMode::is_enabled()) {
    const at::AutoDispatchBelowADInplaceOrView below;
    return folded_backward_operator().call(
        grad, x, read, weight, bias, skew, reader_weight, reader_bias, statistics, stride, padding,
        dilation, groups, zeros, spec, channels, dims, sample_stride, transform, name, wanted);
  }
  const variable_list d = FoldedBackwardFunction::apply(
      grad, x, present(read), present(weight), present(bias), present(skew), reader_weight,
      present(reader_bias), statistics.vec(),
      Arguments{text(spec), text(name), channels, dims, sample_stride, transform},
      ReaderArguments{stride.vec(), padding.vec(), dilation.vec(), groups, zeros}, wanted);
  return {d[0], d[1], d[2], d[3], d[4], d[5], d[6]};
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
  m.impl("condition", torch::autograd::autogradNotImplementedFallback());
  m.impl("average_map", torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(orthobatch, ADInplaceOrView, m) {
  m.impl("track_", orthobatch::ops::autograd::track);
}

TORCH_LIBRARY_IMPL(orthobatch, AutocastCPU, m) { orthobatch::ops::autograd::register_autocast(m); }
TORCH_LIBRARY_IMPL(orthobatch, Autocast, m) { orthobatch::ops::autograd::register_autocast(m); }
