// The operators torch.ops.orthobatch.*: what they take, and who computes them for which tensors. All
// registrations stand here, so that a program that calls one of them has every one.

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "kernels/convert.h"
#include "ops/operators.h"
#include "ops/tape.h"

namespace orthobatch::ops {
namespace {

// Schemas name the arguments once for the operators that share them.
const std::string parameters = "Tensor? weight, Tensor? bias, Tensor? skew";
const std::string averages = "Tensor mean, Tensor statistic, Tensor? last";
const std::string consumed =
    "Tensor? read, Tensor? consumer_weight, Tensor? consumer_bias, int[] consumer";
const std::string consumed_by_none =
    "Tensor? read=None, Tensor? consumer_weight=None, Tensor? consumer_bias=None, int[] "
    "consumer=[]";

std::string layer_text(int64_t dims, int64_t num_features, string_view spec, int64_t sample_stride,
                       bool transform, int64_t group, string_view name) {
  Layer layer;
  layer.dims = dims;
  layer.num_features = num_features;
  layer.spec = spec_of(spec);
  layer.sample_stride = sample_stride;
  layer.average = transform ? RunningAverage::transform : RunningAverage::covariance;
  layer.group = group;
  layer.name = std::string(name.data(), name.size());
  return layer.text();
}

std::tuple<std::vector<int64_t>, std::vector<int64_t>> sizes_of_statistic(string_view text) {
  const auto layer = layer_of(text);
  const StatisticSizes sizes = statistic_sizes(layer->spec, layer->num_features, layer->average);
  return {sizes.blocks, sizes.last};
}

/// What a user would want to know of a batch; empty where there is nothing.
std::string warning(const Tensor& tape, string_view text) {
  const auto layer = layer_of(text);
  check_tape(tape, *layer);
  return tape.is_cpu() ? warning_of(*layer, tape.data_ptr<double>()) : "";
}

}  // namespace

const c10::TypedOperatorHandle<Step>& step_operator() {
  static const auto op = find_operator<Step>("orthobatch::step_");
  return op;
}
const c10::TypedOperatorHandle<Evaluate>& evaluate_operator() {
  static const auto op = find_operator<Evaluate>("orthobatch::evaluate");
  return op;
}

}  // namespace orthobatch::ops

TORCH_LIBRARY(orthobatch, m) {
  using namespace orthobatch::ops;
  const auto define = [&](const std::string& schema) { m.def(schema.c_str()); };
  define("train(Tensor x, " + parameters + ", str layer, " + consumed_by_none +
         ") -> (Tensor output, Tensor tape)");
  define("evaluate(Tensor x, " + parameters + ", " + averages + ", str layer, " + consumed_by_none +
         ") -> Tensor");
  define("backward(Tensor grad, Tensor x, " + parameters + ", Tensor[] statistics, str layer, " +
         consumed +
         ", bool[7] wanted) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  define(
      "track_(Tensor(a!) mean, Tensor(b!) statistic, Tensor(c!)? last, Tensor(d!) count, "
      "Tensor? weight, Tensor tape, float? momentum, str layer) -> ()");
  define("step_(Tensor x, " + parameters +
         ", Tensor(a!)? mean, Tensor(b!)? statistic, Tensor(c!)? last, Tensor(d!)? count, "
         "float? momentum, str layer, " +
         consumed_by_none + ") -> (Tensor output, Tensor tape)");
  define("conditioned(Tensor tape, Tensor? weight, str layer) -> (Tensor, Tensor)");
  define("initial(Tensor variance, Tensor? weight, str layer) -> (Tensor, Tensor)");
  define("whitening_matrix(Tensor covariance, str spec) -> (Tensor matrix, Tensor tape)");
  define(
      "whitening_matrix_backward(Tensor grad, Tensor covariance, Tensor tape, str spec) -> Tensor");
  define(
      "whiten(Tensor x, str spec, bool return_map=False) -> (Tensor output, Tensor matrix, Tensor "
      "mean)");
  define("average_map(" + parameters + ", " + averages + ", str layer) -> Tensor[]");
  define(
      "fold_behind(Tensor[] map, Tensor weight, Tensor? bias, int groups, bool transposed) -> "
      "Tensor[]");
  define(
      "fold_before(Tensor[] map, Tensor weight, Tensor? bias, int groups, bool pads_zeros) -> "
      "Tensor[]");
  define("fold_alone(Tensor[] map) -> Tensor[]");

  // Of no tensors: not for graphs.
  m.def(
      "layer(int dims, int num_features, str spec, int sample_stride, bool transform, int group, "
      "str name) -> str",
      layer_text);
  m.def("statistic_sizes(str layer) -> (int[], int[])", sizes_of_statistic);
  m.def("warning(Tensor tape, str layer) -> str", warning);
  m.def("advice(str layer) -> str[]", [](string_view text) { return advice(*layer_of(text)); });
  m.def("has_double(Device device) -> bool", [](at::Device device) {
    return device.is_meta() || orthobatch::kernels::exact_type(device) == at::kDouble;
  });
  m.def("replays_from_copies() -> int", replays_from_copies);
}

TORCH_LIBRARY_IMPL(orthobatch, CompositeExplicitAutograd, m) {
  using namespace orthobatch::ops;
  m.impl("train", values::train);
  m.impl("evaluate", values::evaluate);
  m.impl("backward", values::backward);
  m.impl("track_", values::track);
  m.impl("conditioned", values::conditioned);
  m.impl("initial", values::initial);
  m.impl("whitening_matrix", values::whitening_matrix);
  m.impl("whitening_matrix_backward", values::whitening_matrix_backward);
  m.impl("average_map", inference::average_map);
  m.impl("fold_behind", inference::fold_behind);
  m.impl("fold_before", inference::fold_before);
  m.impl("fold_alone", inference::fold_alone);
}

TORCH_LIBRARY_IMPL(orthobatch, CompositeImplicitAutograd, m) {
  m.impl("step_", orthobatch::ops::autograd::step);
  m.impl("whiten", orthobatch::ops::autograd::whiten);
}

TORCH_LIBRARY_IMPL(orthobatch, Meta, m) {
  using namespace orthobatch::ops;
  m.impl("train", meta::train);
  m.impl("evaluate", meta::evaluate);
  m.impl("backward", meta::backward);
  m.impl("track_", meta::track);
  m.impl("whitening_matrix", meta::whitening_matrix);
  m.impl("whitening_matrix_backward", meta::whitening_matrix_backward);
}

TORCH_LIBRARY_IMPL(orthobatch, Autograd, m) {
  using namespace orthobatch::ops;
  m.impl("train", autograd::train);
  m.impl("evaluate", autograd::evaluate);
  m.impl("backward", autograd::backward);
  m.impl("whitening_matrix", autograd::whitening_matrix);
  m.impl("whitening_matrix_backward", autograd::whitening_matrix_backward);
  m.impl("track_", torch::CppFunction::makeFallthrough());  // of constants
  for (const char* name :
       {"conditioned", "initial", "average_map", "fold_behind", "fold_before", "fold_alone"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(orthobatch, ADInplaceOrView, m) {
  m.impl("track_", orthobatch::ops::autograd::track);
}

// Slices of a batch are whitened apart, one after the other; they cannot share running averages.
TORCH_LIBRARY_IMPL(orthobatch, FuncTorchBatched, m) {
  m.impl("step_", orthobatch::ops::autograd::step);
  m.impl("track_",
         torch::CppFunction::makeFromBoxedFunction<&orthobatch::ops::autograd::refuse_vmap>());
}

// Layers compute in float.
TORCH_LIBRARY_IMPL(orthobatch, AutocastCPU, m) {
  for (const char* name : {"train", "evaluate"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&orthobatch::ops::autograd::autocast>());
}
TORCH_LIBRARY_IMPL(orthobatch, Autocast, m) {
  for (const char* name : {"train", "evaluate"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&orthobatch::ops::autograd::autocast>());
}
