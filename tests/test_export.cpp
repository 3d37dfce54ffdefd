// Models for other programs: what is written answers as the net does.

#include <fmt/core.h>
#include <onnx/onnx_pb.h>

#include "export/answers.h"
#include "export/demo_page.h"
#include "export/onnx_model.h"
#include "export/script_model.h"
#include "made_checkpoint.h"
#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

/// A net with statistics of images of its data, as a run would leave it.
Checkpoint made(const std::string& layer, Head head, Padding padding) {
  Checkpoint out;
  out.config = test::small_config(layer);
  out.config.net.head = head;
  out.config.net.padding = padding;
  out.image = test::small_data().train.shape();
  out.scale = test::small_data().scale;
  out.state.epoch = 3;
  torch::manual_seed(3);
  out.net = DigitNet(out.image, out.config.net);
  const torch::Tensor x = torch::randn({64, 1, 28, 28});
  initialize(out.net, x, 2.0);
  out.net(x);
  test::randomize_parameters(out.net, 4);
  return out;
}

struct Case {
  const char* layer;
  Head head;
  Padding padding;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const Padding padding : {Padding::valid, Padding::same})
    for (const Head head : {Head::flat, Head::average, Head::max})
      for (const char* layer : {"BN", "ZCA(1e-5)->W->Gamma", "LDL(1e-5,group_size=2)"})
        out.push_back({layer, head, padding});
  return out;
}

TEST(Export, EveryNetAndInputAnswersAsItself) {
  for (const Case& c : cases()) {
    const Checkpoint checkpoint = made(c.layer, c.head, c.padding);
    for (const std::string& form : input_form_names()) {
      const PlainNet net = plain_net(checkpoint, parse_input_form(form));
      SCOPED_TRACE(
          fmt::format("{} {} {} {}", c.layer, to_string(c.head), to_string(c.padding), form));
      const OnnxModel onnx(onnx_model(net));
      const ScriptModel script(script_model(net));
      for (const Model& model :
           std::vector<Model>{[&](const torch::Tensor& x) { return onnx(x); },
                              [&](const torch::Tensor& x) { return script(x); }}) {
        const Agreement found = compare(checkpoint, net, model, test::small_data().test);
        EXPECT_TRUE(found.holds()) << found.largest << " of " << found.scale;
        EXPECT_EQ(found.images, 200);
        EXPECT_GT(found.scale, 0.1);
        EXPECT_EQ(found.own_wrong, found.model_wrong);
      }
    }
  }
}

TEST(Export, LayersAreGoneWhereTheyCanBe) {
  const auto kinds = [](const Checkpoint& checkpoint) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(onnx_model(plain_net(checkpoint, InputForm::bytes))));
    std::string out;
    for (const auto& node : model.graph().node()) {
      out += node.op_type();
      for (const auto& a : node.attribute())
        if (a.name() == "group" && a.i() > 1) out += "/" + std::to_string(a.i());
      out += " ";
    }
    return out;
  };
  const char *zca = "ZCA(1e-5)", *groups = "ZCA(1e-5,group_size=2)";
  EXPECT_EQ(kinds(made(zca, Head::flat, Padding::valid)), "Cast Conv Relu Conv Relu Flatten Gemm ");
  EXPECT_EQ(kinds(made(zca, Head::average, Padding::valid)),
            "Cast Conv Relu Conv Relu GlobalAveragePool Flatten Gemm ");
  EXPECT_EQ(kinds(made(groups, Head::max, Padding::valid)),
            "Cast Conv Relu Conv Relu Conv/4 GlobalMaxPool Flatten Gemm ");
  // Zeros stand around the input and the first layer's output; a single channel needs no groups.
  EXPECT_EQ(kinds(made(groups, Head::flat, Padding::same)),
            "Cast Conv Conv Relu Conv/3 Conv Relu Flatten Gemm ");
}

TEST(Export, AFileSaysWhatItIs) {
  PlainNet net = plain_net(made("ZCA(1e-5)", Head::flat, Padding::valid), InputForm::bytes);
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(onnx_model(net)));
  const auto& input = model.graph().input(0);
  EXPECT_EQ(input.name(), "images");
  const auto& shape = input.type().tensor_type().shape();
  EXPECT_EQ(input.type().tensor_type().elem_type(), onnx::TensorProto::UINT8);
  EXPECT_EQ(shape.dim(0).dim_param(), "batch");
  EXPECT_EQ(shape.dim(2).dim_value(), 28);
  EXPECT_EQ(model.graph().output(0).name(), "logits");
  EXPECT_EQ(model.producer_version(), ORTHOBATCH_VERSION);
  std::map<std::string, std::string> facts;
  for (const auto& p : model.metadata_props()) facts[p.key()] = p.value();
  EXPECT_EQ(facts["layer"], "ZCA(1e-5)");
  EXPECT_EQ(facts["data"], "synthetic");
  EXPECT_EQ(facts["input"], "bytes");
}

TEST(Export, OtherAnswersAreNoticed) {
  const Checkpoint checkpoint = made("ZCA(1e-5)", Head::flat, Padding::valid);
  const PlainNet net = plain_net(checkpoint, InputForm::bytes);
  const auto agreement = [&](double change) {
    const OnnxModel model(onnx_model(net));
    return compare(
        checkpoint, net, [&](const torch::Tensor& x) { return model(x) + change; },
        test::small_data().test);
  };
  EXPECT_TRUE(agreement(0).holds());
  EXPECT_FALSE(agreement(0.01).holds());
  const Agreement none = compare(
      checkpoint, net,
      [&](const torch::Tensor& x) {
        return torch::zeros({x.size(0), 10}) + NAN;
      },
      test::small_data().test);
  EXPECT_FALSE(none.holds());
}

TEST(Export, RefusesModulesItHasNoStepFor) {
  const torch::nn::Sequential net(torch::nn::Conv2d(1, 2, 3), torch::nn::Sigmoid());
  test::expect_says(test::message_of([&] { steps_of(net); }), {"1: expected a Conv2d", "Sigmoid"});
  test::expect_says(test::message_of([] { parse_input_form("byte"); }),
                    {"--input: expected bytes", "did you mean 'bytes'"});
}

TEST(Export, APageIsOneFile) {
  const Checkpoint checkpoint = made("ZCA(1e-5)", Head::flat, Padding::valid);
  const std::string page = demo_page(plain_net(checkpoint, InputForm::floats),
                                     {"</script>", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
                                     checkpoint.scale, test::small_data().test, false, "a net");
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("</script>\""), std::string::npos);
  EXPECT_NE(page.find("\\u003c/script>"), std::string::npos);
}

}  // namespace
}  // namespace orthobatch
