#include "orthobatch/modules.h"

#include <torch/nn/init.h>
#include <torch/serialize/archive.h>
#include <torch/utils.h>

#include "kernels/convert.h"
#include "nn/layer.h"
#include "nn/state.h"

namespace orthobatch {

template <size_t D, typename Derived>
BatchOrthoImplBase<D, Derived>::BatchOrthoImplBase(const BatchOrthoOptions& options_)
    : BatchOrthoLayer(options_, static_cast<int64_t>(D)) {
  reset();  // NOLINT(clang-analyzer-optin.cplusplus.VirtualCall): final in effect, as in torch's
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::reset() {
  for (torch::Tensor* t : nn::tensors_of(*this)) *t = torch::Tensor();
  const std::vector<nn::Entry> entries = nn::entries_of(*this);
  for (const nn::Entry& entry : entries) {
    const bool buffer =
        entry.exact || entry.tensor == &running_mean || entry.tensor == &running_var;
    const auto type = !entry.exact          ? torch::get_default_dtype_as_scalartype()
                      : entry.shape.empty() ? torch::kLong
                                            : torch::kDouble;
    const torch::Tensor value = torch::empty(entry.shape, type);
    *entry.tensor = buffer ? this->register_buffer(entry.name, value)
                           : this->register_parameter(entry.name, value);
  }
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
  if (frozen) stream << " frozen";
}

template <size_t D, typename Derived>
torch::Tensor BatchOrthoImplBase<D, Derived>::forward(const torch::Tensor& input) {
  return nn::Access::run(*this, input, this->is_training());
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::share_parameters(const torch::Tensor& scale,
                                                      const torch::Tensor& shift) {
  const auto share = [&](const char* name, torch::Tensor& own, const torch::Tensor& theirs) {
    if (own.defined() && theirs.defined()) own = this->parameters_[name] = theirs;
  };
  share("weight", weight, scale);
  share("bias", bias, shift);
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::save(torch::serialize::OutputArchive& archive) const {
  torch::nn::Module::save(archive);
  nn::save_spec(*this, archive);
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::load(torch::serialize::InputArchive& archive) {
  nn::check_archive(*this, archive);
  if (!nn::load_batch_norm(*this, archive)) torch::nn::Module::load(archive);
}

namespace {

/// Runs a conversion of the module and puts the exact buffers back as they were, on their device;
/// in float where that has no double.
template <typename Convert>
void keeping_exact(BatchOrthoLayer& layer, const Convert& convert) {
  const std::vector<nn::Entry> entries = nn::entries_of(layer);
  std::vector<torch::Tensor> before;
  for (const nn::Entry& e : entries) {
    before.push_back(e.tensor->detach());
    if (e.exact && e.tensor->scalar_type() == torch::kDouble)
      e.tensor->set_data(before.back().to(torch::kFloat));  // which every device has
  }
  convert();
  for (size_t k = 0; k < entries.size(); ++k) {
    if (!entries[k].exact) continue;
    const torch::Device device = entries[k].tensor->device();
    const auto type =
        before[k].is_floating_point() ? kernels::exact_type(device) : before[k].scalar_type();
    if (type == torch::kFloat) {
      TORCH_WARN_ONCE("orthobatch: ", device.type(),
                      " has no double: running statistics there are float. Said once.");
    }
    entries[k].tensor->set_data(before[k].to(type).to(device));
  }
}

}  // namespace

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::to(torch::Device device, torch::Dtype dtype,
                                        bool non_blocking) {
  keeping_exact(*this, [&] { torch::nn::Module::to(device, dtype, non_blocking); });
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::to(torch::Dtype dtype, bool non_blocking) {
  keeping_exact(*this, [&] { torch::nn::Module::to(dtype, non_blocking); });
}

template <size_t D, typename Derived>
void BatchOrthoImplBase<D, Derived>::to(torch::Device device, bool non_blocking) {
  keeping_exact(*this, [&] { torch::nn::Module::to(device, non_blocking); });
}

template class BatchOrthoImplBase<1, BatchOrtho1dImpl>;
template class BatchOrthoImplBase<2, BatchOrtho2dImpl>;
template class BatchOrthoImplBase<3, BatchOrtho3dImpl>;

}  // namespace orthobatch
