#pragma once
// The layers that operators are called for: an operator has no module to keep anything in, so what
// is made once for a layer is found again by what the layer is, and by the values it was made from.

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "nn/layer_call.h"

namespace orthobatch::ops {

using at::Tensor;
using OptionalTensor = c10::optional<Tensor>;

/// What a layer is, apart from its tensors.
struct Layer {
  LayerSpec spec;
  int64_t channels, dims;
  std::string name;
  std::shared_ptr<const core::LayerAlgebra> algebra;
};

/// A layer as the arguments of an operator name it.
struct Named {
  c10::string_view spec;
  int64_t channels, dims;
  c10::string_view name;
};

/// Throws where there is no such layer.
std::shared_ptr<const Layer> find_layer(const Named& named);

inline Tensor value_or_none(const OptionalTensor& t) {
  return t.has_value() ? *t : Tensor();  // NOLINT(bugprone-unchecked-optional-access)
}

/// A layer with its parameters, for one call.
class Call {
 public:
  /// Checks everything that can be checked without statistics.
  Call(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
       const OptionalTensor& skew, const Named& named);

  nn::Callee callee() const;
  const Layer& layer() const { return *layer_; }
  bool per_channel() const { return nn::is_per_channel(layer_->spec); }

  /// The map of an average, made once for the same values.
  nn::LayerCall on_average(const Tensor& mean, const Tensor& statistic, bool transform) const;

 private:
  Tensor weight_, bias_, skew_;
  std::shared_ptr<const Layer> layer_;
};

}  // namespace orthobatch::ops
