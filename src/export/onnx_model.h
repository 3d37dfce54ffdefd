#pragma once

#include <string>

#include "export/plain_net.h"

namespace orthobatch::exporter {

/// The net as a file of ONNX: input `images` with any number of them, output `logits`. Checked by
/// ONNX's own checker, and its shapes inferred.
std::string onnx_model(const PlainNet& net);

/// The logits that such a file gives, read from its bytes alone and run by torch's operations.
class OnnxModel {
 public:
  explicit OnnxModel(const std::string& bytes);
  ~OnnxModel();
  torch::Tensor operator()(const torch::Tensor& images) const;

 private:
  struct Graph;
  std::unique_ptr<const Graph> graph_;
};

}  // namespace orthobatch::exporter
