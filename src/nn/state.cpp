#include "nn/state.h"

#include <torch/nn/init.h>
#include <torch/serialize/archive.h>

#include "core/cayley.h"
#include "kernels/convert.h"
#include "nn/layer.h"
#include "ops/operators.h"

namespace orthobatch {
namespace nn {
namespace {

constexpr const char* spec_key = "spec";

}  // namespace

std::vector<torch::Tensor*> tensors_of(BatchOrthoLayer& layer) {
  return {&layer.weight,
          &layer.bias,
          &layer.skew,
          &layer.running_mean,
          &layer.running_var,
          &layer.running_cov,
          &layer.running_cov_last,
          &layer.running_transform,
          &layer.running_transform_last,
          &layer.num_batches_tracked};
}

std::vector<Entry> entries_of(BatchOrthoLayer& layer) {
  const BatchOrthoOptions& o = layer.options;
  const int64_t n = o.num_features();
  const bool tracks = o.track_running_stats(),
             transform = o.running_average() == RunningAverage::transform;
  const ops::StatisticSizes sizes = ops::statistic_sizes(o.spec(), n, o.running_average());
  std::vector<Entry> out;
  const auto add = [&](const char* name, bool present, torch::Tensor& t, std::vector<int64_t> shape,
                       bool exact = false) {
    if (present) out.push_back({name, &t, std::move(shape), exact});
  };
  add("weight", o.affine() && o.spec().has_scale(), layer.weight, {n});
  add("bias", o.affine(), layer.bias, {n});
  add("skew", o.spec().has_rotation(), layer.skew, {core::skew_size(n)});
  add("running_mean", tracks, layer.running_mean, {n});
  const bool variances = ops::is_per_channel(o.spec()) && !transform;
  const bool last = tracks && !sizes.last.empty();
  add("running_var", tracks && variances, layer.running_var, sizes.blocks);
  add("running_cov", tracks && !variances && !transform, layer.running_cov, sizes.blocks, true);
  add("running_cov_last", last && !transform, layer.running_cov_last, sizes.last, true);
  add("running_transform", tracks && transform, layer.running_transform, sizes.blocks, true);
  add("running_transform_last", last && transform, layer.running_transform_last, sizes.last, true);
  add("num_batches_tracked", tracks, layer.num_batches_tracked, {}, true);
  return out;
}

void check_state(BatchOrthoLayer& layer, const std::string& who) {
  for (const Entry& entry : entries_of(layer)) {
    TORCH_CHECK(entry.tensor->sizes() == entry.shape, who, ": expected ", entry.name, " of size ",
                torch::IntArrayRef(entry.shape), ", got ", entry.tensor->sizes());
    const torch::ScalarType type =
        entry.shape.empty() ? torch::kLong : kernels::exact_type(entry.tensor->device());
    TORCH_CHECK(!entry.exact || entry.tensor->scalar_type() == type, who, ": expected ", entry.name,
                " as ", type, ", got ", entry.tensor->scalar_type());
  }
}

void take_variances(BatchOrthoLayer& layer, const torch::Tensor& variance) {
  const torch::NoGradGuard no_grad;
  if (layer.running_var.defined()) {
    layer.running_var.copy_(variance);
    return;
  }
  const auto [blocks, last] =
      ops::values::initial(variance, ops::optional(layer.weight), Access::text(layer));
  (layer.running_cov.defined() ? layer.running_cov : layer.running_transform).copy_(blocks);
  for (torch::Tensor* t : {&layer.running_cov_last, &layer.running_transform_last})
    if (t->defined()) t->copy_(last);
}

bool load_batch_norm(BatchOrthoLayer& layer, torch::serialize::InputArchive& archive) {
  torch::Tensor variance;
  if (c10::IValue spec; archive.try_read(spec_key, spec)) return false;
  if (!layer.running_mean.defined() || layer.running_var.defined() ||
      !archive.try_read("running_var", variance, /*is_buffer=*/true))
    return false;
  const torch::NoGradGuard no_grad;
  for (const Entry& entry : entries_of(layer)) {
    if (entry.exact && !entry.shape.empty()) continue;  // the statistics, made of the variances
    torch::Tensor found = torch::empty_like(*entry.tensor);
    archive.read(entry.name, found, /*is_buffer=*/!entry.tensor->requires_grad());
    entry.tensor->copy_(found);
  }
  take_variances(layer, variance);
  return true;
}

void save_spec(const BatchOrthoLayer& layer, torch::serialize::OutputArchive& archive) {
  archive.write(spec_key, c10::IValue(to_string(layer.options.spec())));
}

void check_archive(BatchOrthoLayer& layer, torch::serialize::InputArchive& archive) {
  const std::string who = layer.description();
  if (c10::IValue text; archive.try_read(spec_key, text)) {
    TORCH_CHECK(text.isString(), who, ": expected a spec in the state, got ", text.tagKind());
    const std::string& found = text.toStringRef();
    bool same = false;
    try {
      same = ops::same_state(parse(found), layer.options.spec());
    } catch (const SpecError&) {
      // Of a later version, or of no version: another spec.
    }
    TORCH_CHECK(same, who, ": expected a state of ", to_string(layer.options.spec()),
                ", got one of ", found, "; the layer is unchanged");
  }
  for (const Entry& entry : entries_of(layer)) {
    torch::Tensor found;
    const bool is_buffer = !entry.tensor->requires_grad();
    if (!archive.try_read(entry.name, found, is_buffer) &&
        !archive.try_read(entry.name, found, !is_buffer))
      continue;  // torch names what is missing
    TORCH_CHECK(found.sizes() == entry.shape, who, ": expected ", entry.name, " of size ",
                torch::IntArrayRef(entry.shape), " in the state, got ", found.sizes(),
                "; the layer is unchanged");
  }
}

}  // namespace nn

void BatchOrthoLayer::reset_running_stats() {
  torch::NoGradGuard no_grad;
  if (!running_mean.defined()) return;
  running_mean.zero_();
  if (running_var.defined()) running_var.fill_(1);
  for (torch::Tensor* t :
       {&running_cov, &running_cov_last, &running_transform, &running_transform_last})
    if (t->defined()) t->copy_(torch::eye(t->size(-1), t->options()).expand_as(*t));
  num_batches_tracked.zero_();
}

void BatchOrthoLayer::reset_parameters() {
  reset_running_stats();
  if (weight.defined()) torch::nn::init::ones_(weight);
  if (bias.defined()) torch::nn::init::zeros_(bias);
  if (skew.defined()) torch::nn::init::zeros_(skew);
}

}  // namespace orthobatch
