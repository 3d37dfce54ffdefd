// The parameters and buffers of a layer: what shapes they have, what they start as, and what is
// refused where others are loaded or set.

#include <torch/nn/init.h>
#include <torch/serialize/archive.h>

#include "core/cayley.h"
#include "nn/layer_call.h"
#include "orthobatch/modules.h"

namespace orthobatch {
namespace {

constexpr const char* spec_key = "spec";

}  // namespace

std::vector<torch::Tensor*> BatchOrthoLayer::exact_buffers() {
  std::vector<torch::Tensor*> out;
  for (torch::Tensor* t : {&running_cov, &running_transform, &num_batches_tracked})
    if (t->defined()) out.push_back(t);
  return out;
}

std::vector<BatchOrthoLayer::Entry> BatchOrthoLayer::state() const {
  const int64_t n = options.channels();
  std::vector<Entry> out;
  const auto add = [&](const char* name, const torch::Tensor& t, std::vector<int64_t> shape) {
    if (t.defined()) out.push_back({name, &t, std::move(shape)});
  };
  add("weight", weight, {n});
  add("bias", bias, {n});
  add("skew", skew, {core::skew_size(n)});
  add("running_mean", running_mean, {n});
  add("running_var", running_var, {n});
  add("running_cov", running_cov, {n, n});
  add("running_transform", running_transform, {n, n});
  add("num_batches_tracked", num_batches_tracked, {});
  return out;
}

void BatchOrthoLayer::check_state() const {
  for (const Entry& entry : state())
    nn::check_shape(callee(), entry.name, *entry.tensor, entry.shape);
  for (const torch::Tensor* t : {&running_cov, &running_transform})
    TORCH_CHECK(!t->defined() || t->scalar_type() == torch::kDouble, description(),
                ": expected the running covariance or transform in double, got ", t->scalar_type());
  TORCH_CHECK(!num_batches_tracked.defined() || num_batches_tracked.scalar_type() == torch::kLong,
              description(), ": expected num_batches_tracked as int64, got ",
              num_batches_tracked.scalar_type());
}

void BatchOrthoLayer::save_spec(torch::serialize::OutputArchive& archive) const {
  archive.write(spec_key, c10::IValue(to_string(options.spec())));
}

void BatchOrthoLayer::check_archive(torch::serialize::InputArchive& archive) const {
  if (c10::IValue text; archive.try_read(spec_key, text)) {
    TORCH_CHECK(text.isString(), description(), ": expected a spec in the state, got ",
                text.tagKind());
    const std::string& found = text.toStringRef();
    bool same = false;
    try {
      same = nn::same_state(parse(found), options.spec());
    } catch (const SpecError&) {
      // Of a later version, or of no version: another spec.
    }
    TORCH_CHECK(same, description(), ": expected a state of ", to_string(options.spec()),
                ", got one of ", found, "; the layer is unchanged");
  }
  for (const Entry& entry : state()) {
    torch::Tensor found;
    const bool is_buffer = !entry.tensor->requires_grad();
    if (!archive.try_read(entry.name, found, is_buffer) &&
        !archive.try_read(entry.name, found, !is_buffer))
      continue;  // torch names what is missing
    TORCH_CHECK(found.sizes() == entry.shape, description(), ": expected ", entry.name, " of size ",
                torch::IntArrayRef(entry.shape), " in the state, got ", found.sizes(),
                "; the layer is unchanged");
  }
}

void BatchOrthoLayer::reset_running_stats() {
  torch::NoGradGuard no_grad;
  if (!running_mean.defined()) return;
  running_mean.zero_();
  if (running_var.defined()) running_var.fill_(1);
  for (torch::Tensor* t : {&running_cov, &running_transform})
    if (t->defined()) t->copy_(torch::eye(options.channels(), t->options()));
  num_batches_tracked.zero_();
}

void BatchOrthoLayer::reset_parameters() {
  reset_running_stats();
  if (weight.defined()) torch::nn::init::ones_(weight);
  if (bias.defined()) torch::nn::init::zeros_(bias);
  if (skew.defined()) torch::nn::init::zeros_(skew);
}

}  // namespace orthobatch
