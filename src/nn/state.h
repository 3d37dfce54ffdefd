#pragma once
// The parameters and buffers of a layer: what shapes they have and what is refused where others are
// loaded or set.

#include <string>
#include <vector>

#include "orthobatch/modules.h"

namespace orthobatch::nn {

/// One tensor of a layer's state, with the shape that it has to have.
struct Entry {
  const char* name;
  torch::Tensor* tensor;
  std::vector<int64_t> shape;
  bool exact = false;  // double or integer, whatever the layer's type
};
/// Those that the layer's options ask for.
std::vector<Entry> entries_of(BatchOrthoLayer& layer);
/// All that there may be.
std::vector<torch::Tensor*> tensors_of(BatchOrthoLayer& layer);

/// Parameters and buffers may be set from outside: their shapes and types are those of the layer.
void check_state(BatchOrthoLayer& layer, const std::string& who);

/// Running statistics as where only variances are known; γ is in place already.
void take_variances(BatchOrthoLayer& layer, const torch::Tensor& variance);

void save_spec(const BatchOrthoLayer& layer, torch::serialize::OutputArchive& archive);
/// Throws where the archive holds the state of another layer.
void check_archive(BatchOrthoLayer& layer, torch::serialize::InputArchive& archive);
/// Takes the state of a BatchNorm, if that is what the archive holds.
bool load_batch_norm(BatchOrthoLayer& layer, torch::serialize::InputArchive& archive);

}  // namespace orthobatch::nn
