#include <onnx/onnx_pb.h>
#include <torch/torch.h>

#include <map>
#include <stdexcept>

#include "export/onnx_model.h"

namespace orthobatch::exporter {

struct OnnxModel::Graph {
  onnx::ModelProto model;
  std::map<std::string, torch::Tensor> weights;
};

namespace {

torch::Tensor tensor_of(const onnx::TensorProto& proto) {
  const std::vector<int64_t> sizes(proto.dims().begin(), proto.dims().end());
  torch::Tensor out = torch::empty(sizes);
  if (proto.raw_data().size() != out.nbytes())
    throw std::runtime_error("ONNX: " + proto.name() + ": expected " +
                             std::to_string(out.nbytes()) + " bytes, found " +
                             std::to_string(proto.raw_data().size()));
  std::memcpy(out.data_ptr(), proto.raw_data().data(), out.nbytes());
  return out;
}

class Node {
 public:
  explicit Node(const onnx::NodeProto& proto) : proto_(proto) {}

  torch::Tensor run(const torch::Tensor& x, const torch::Tensor& weight,
                    const torch::Tensor& bias) const {
    const std::string& type = proto_.op_type();
    if (type == "Cast") return x.to(torch::kFloat);
    if (type == "Relu") return x.relu();
    if (type == "Flatten") return x.flatten(1);
    if (type == "GlobalAveragePool") return x.mean({2, 3}, /*keepdim=*/true);
    if (type == "GlobalMaxPool") return x.amax({2, 3}, /*keepdim=*/true);
    if (type == "Gemm") return torch::linear(x, weight, bias);
    if (type != "Conv") throw std::runtime_error("ONNX: no operator " + type + " was written");
    const auto pads = list("pads");
    const torch::Tensor padded = torch::constant_pad_nd(x, {pads[1], pads[3], pads[0], pads[2]});
    return torch::conv2d(padded, weight, bias, list("strides"), torch::IntArrayRef({0, 0}),
                         list("dilations"), attribute("group").i());
  }

 private:
  const onnx::AttributeProto& attribute(const char* name) const {
    for (const auto& a : proto_.attribute())
      if (a.name() == name) return a;
    throw std::runtime_error("ONNX: " + proto_.name() + ": no attribute " + name);
  }
  std::vector<int64_t> list(const char* name) const {
    const auto& a = attribute(name);
    return {a.ints().begin(), a.ints().end()};
  }

  const onnx::NodeProto& proto_;
};

}  // namespace

OnnxModel::OnnxModel(const std::string& bytes) {
  auto graph = std::make_unique<Graph>();
  if (!graph->model.ParseFromString(bytes))
    throw std::runtime_error("ONNX: the model cannot be read back");
  for (const auto& proto : graph->model.graph().initializer())
    graph->weights[proto.name()] = tensor_of(proto);
  graph_ = std::move(graph);
}

OnnxModel::~OnnxModel() = default;

torch::Tensor OnnxModel::operator()(const torch::Tensor& images) const {
  const torch::NoGradGuard no_grad;
  const auto& graph = graph_->model.graph();
  std::map<std::string, torch::Tensor> values = {{graph.input(0).name(), images}};
  for (const auto& node : graph.node()) {
    const auto weight = [&](int k) {
      return k < node.input_size() ? graph_->weights.at(node.input(k)) : torch::Tensor();
    };
    values[node.output(0)] = Node(node).run(values.at(node.input(0)), weight(1), weight(2));
  }
  return values.at(graph.output(0).name());
}

}  // namespace orthobatch::exporter
