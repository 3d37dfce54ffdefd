#include "export/script_model.h"

#include <fmt/core.h>
#include <torch/script.h>

#include <nlohmann/json.hpp>

#include <sstream>

namespace orthobatch::exporter {

struct ScriptModel::Module {
  torch::jit::Module jit;
};

namespace {

/// The forward of the net as a line of Python a step, with its weights as the module's.
class ScriptWriter {
 public:
  explicit ScriptWriter(const PlainNet& net) : net_(net) {}

  torch::jit::Module write() {
    const data::ImageShape& image = net_.image;
    body_ = fmt::format(
        "def forward(self, images: Tensor) -> Tensor:\n"
        "    \"\"\"Logits of images: {}, (images, {}, {}, {}).\"\"\"\n"
        "    x = images.float()\n",
        to_string(net_.input), image.channels, image.height, image.width);
    for (const Step& step : net_.steps)
      std::visit([&](const auto& what) { put(step.name, what); }, step.what);
    module_.define(body_ + "    return x\n");
    module_.eval();
    return module_;
  }

 private:
  void line(const std::string& text) { body_ += "    x = " + text + "\n"; }
  std::string add(const std::string& name, const torch::Tensor& value) {
    module_.register_parameter(name, value.to(torch::kFloat).contiguous(), false);
    return "self." + name;
  }

  void put(const std::string& name, const ConvStep& s) {
    const auto& [above, left, below, right] = s.pads;
    const bool even = above == below && left == right;
    if (!even)
      line(fmt::format("torch.constant_pad_nd(x, [{}, {}, {}, {}])", left, right, above, below));
    line(fmt::format("torch.conv2d(x, {}, {}, [{}, {}], [{}, {}], [{}, {}], {})",
                     add(name + "_weight", s.weight), add(name + "_bias", s.bias), s.stride[0],
                     s.stride[1], even ? above : 0, even ? left : 0, s.dilation[0], s.dilation[1],
                     s.groups));
  }
  void put(const std::string&, const ReluStep&) { line("torch.relu(x)"); }
  void put(const std::string&, const PoolStep& s) {
    line(s.average ? "torch.mean(x, [2, 3], True)" : "torch.amax(x, [2, 3], True)");
  }
  void put(const std::string&, const FlattenStep&) { line("torch.flatten(x, 1)"); }
  void put(const std::string& name, const LinearStep& s) {
    line(fmt::format("torch.addmm({}, x, {}.t())", add(name + "_bias", s.bias),
                     add(name + "_weight", s.weight)));
  }

  const PlainNet& net_;
  torch::jit::Module module_{"orthobatch_net"};
  std::string body_;
};

}  // namespace

std::string script_model(const PlainNet& net) {
  nlohmann::ordered_json facts;
  for (const auto& [key, value] : net.facts) facts[key] = value;
  std::ostringstream out;
  ScriptWriter(net).write().save(out, {{"facts.json", facts.dump()}});
  return out.str();
}

ScriptModel::ScriptModel(const std::string& bytes) {
  std::istringstream in(bytes);
  module_ = std::make_unique<Module>(Module{torch::jit::load(in)});
}

ScriptModel::~ScriptModel() = default;

torch::Tensor ScriptModel::operator()(const torch::Tensor& images) const {
  const torch::NoGradGuard no_grad;
  return module_->jit.forward({images}).toTensor();
}

}  // namespace orthobatch::exporter
