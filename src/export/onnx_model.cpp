#include "export/onnx_model.h"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <stdexcept>

#include "orthobatch/version.h"

namespace orthobatch::exporter {
namespace {

// Of 2020: what runs models today takes them, and no operator here has gained anything since.
constexpr int64_t operators_version = 13, format_version = 7;

void set_shape(onnx::ValueInfoProto& value, const char* name, int type,
               const std::vector<int64_t>& sizes) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("batch");
  for (const int64_t size : sizes) tensor.mutable_shape()->add_dim()->set_dim_value(size);
}

/// Nodes one behind the other, each reading what the last gave.
class OnnxWriter {
 public:
  explicit OnnxWriter(const PlainNet& net) : net_(net), graph_(*model_.mutable_graph()) {}

  onnx::ModelProto write() {
    model_.set_ir_version(format_version);
    model_.set_producer_name("orthobatch");
    model_.set_producer_version(ORTHOBATCH_VERSION);
    model_.add_opset_import()->set_version(operators_version);
    for (const auto& [key, value] : net_.facts) {
      auto& entry = *model_.add_metadata_props();
      entry.set_key(key);
      entry.set_value(value);
    }
    graph_.set_name("orthobatch");
    const bool bytes = net_.input == InputForm::bytes;
    set_shape(*graph_.add_input(), "images",
              bytes ? onnx::TensorProto::UINT8 : onnx::TensorProto::FLOAT,
              {net_.image.channels, net_.image.height, net_.image.width});
    if (bytes) set(add("Cast", "floats"), "to", onnx::TensorProto::FLOAT);
    for (const Step& step : net_.steps)
      std::visit([&](const auto& what) { put(step.name, what); }, step.what);
    graph_.mutable_node(graph_.node_size() - 1)->set_output(0, "logits");
    set_shape(*graph_.add_output(), "logits", onnx::TensorProto::FLOAT, {net_.classes});
    return std::move(model_);
  }

 private:
  onnx::NodeProto& add(const char* type, const std::string& name) {
    auto& node = *graph_.add_node();
    node.set_op_type(type);
    node.set_name(name);
    node.add_input(last_);
    node.add_output(name);
    last_ = name;
    return node;
  }
  void set(onnx::NodeProto& node, const char* name, int64_t value) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  template <size_t N>
  void set(onnx::NodeProto& node, const char* name, const std::array<int64_t, N>& values) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) attribute.add_ints(value);
  }
  void add_weights(onnx::NodeProto& node, const std::string& name, const torch::Tensor& value) {
    auto& tensor = *graph_.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t size : value.sizes()) tensor.add_dims(size);
    const torch::Tensor dense = value.to(torch::kFloat).contiguous();
    tensor.set_raw_data(dense.data_ptr(), dense.nbytes());  // little-endian, as all that run torch
    node.add_input(name);
  }

  void put(const std::string& name, const ConvStep& step) {
    auto& node = add("Conv", name);
    add_weights(node, name + ".weight", step.weight);
    add_weights(node, name + ".bias", step.bias);
    set(node, "kernel_shape", std::array{step.weight.size(2), step.weight.size(3)});
    set(node, "strides", step.stride);
    set(node, "dilations", step.dilation);
    set(node, "pads", step.pads);
    set(node, "group", step.groups);
  }
  void put(const std::string& name, const ReluStep&) { add("Relu", name); }
  void put(const std::string& name, const PoolStep& step) {
    add(step.average ? "GlobalAveragePool" : "GlobalMaxPool", name);
  }
  void put(const std::string& name, const FlattenStep&) { set(add("Flatten", name), "axis", 1); }
  void put(const std::string& name, const LinearStep& step) {
    auto& node = add("Gemm", name);
    add_weights(node, name + ".weight", step.weight);
    add_weights(node, name + ".bias", step.bias);
    set(node, "transB", 1);
  }

  const PlainNet& net_;
  onnx::ModelProto model_;
  onnx::GraphProto& graph_;
  std::string last_ = "images";
};

}  // namespace

std::string onnx_model(const PlainNet& net) {
  onnx::ModelProto model = OnnxWriter(net).write();
  onnx::checker::check_model(model);
  // Strict: shapes that contradict those of the output are an error.
  onnx::ModelProto inferred = model;
  onnx::shape_inference::InferShapes(inferred, onnx::OpSchemaRegistry::Instance(),
                                     onnx::ShapeInferenceOptions(true, 1, true));
  std::string bytes;
  if (!model.SerializeToString(&bytes))
    throw std::runtime_error("ONNX: the model could not be written: larger than 2 GB");
  return bytes;
}

}  // namespace orthobatch::exporter
