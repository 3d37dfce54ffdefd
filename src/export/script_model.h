#pragma once

#include <string>

#include "export/plain_net.h"

namespace orthobatch::exporter {

/// The net as a TorchScript module, frozen into one file: `torch.jit.load(FILE)(images)` gives the
/// logits, without this package. The facts are its extra file facts.json.
std::string script_model(const PlainNet& net);

/// The logits that such a file gives.
class ScriptModel {
 public:
  explicit ScriptModel(const std::string& bytes);
  ~ScriptModel();
  torch::Tensor operator()(const torch::Tensor& images) const;

 private:
  struct Module;
  std::unique_ptr<Module> module_;
};

}  // namespace orthobatch::exporter
