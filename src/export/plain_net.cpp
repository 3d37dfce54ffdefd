#include "export/plain_net.h"

#include <fmt/core.h>
#include <torch/torch.h>

#include "base/text.h"
#include "nn/sequential.h"
#include "orthobatch/folded.h"
#include "orthobatch/version.h"

namespace orthobatch::exporter {
namespace {

/// 1 where the net's input is bytes, 1/255 where it is 0 … 1: the unit of what comes in.
double unit_of(InputForm input) { return input == InputForm::unit ? 1.0 : 255.0; }

/// The scale of the input as a layer, which then folds as any other: (x − mean) / deviation.
BatchOrtho2d scaling_layer(const data::InputScale& scale, InputForm input) {
  const auto channels = static_cast<int64_t>(scale.mean.size());
  BatchOrtho2d layer(BatchOrthoOptions(channels, "BN(0)").affine(false));
  layer->to(torch::kDouble);
  const double unit = unit_of(input);
  for (int64_t c = 0; c < channels; ++c) {
    layer->running_mean[c] = scale.mean[c] * unit;
    layer->running_var[c] = scale.deviation[c] * unit * scale.deviation[c] * unit;
  }
  layer->to(torch::kFloat);
  layer->eval();
  return layer;
}

torch::nn::Sequential with_scaling(const torch::nn::Sequential& net, const data::InputScale& scale,
                                   InputForm input) {
  torch::nn::Sequential out;
  if (input != InputForm::scaled) out->push_back("scale", scaling_layer(scale, input));
  for (const nn::Element& element : nn::elements_of(net))
    out->push_back(element.name, element.module);
  return out;
}

ConvStep step_of(const torch::nn::Conv2dImpl& conv, const std::string& name) {
  const auto& o = conv.options;
  if (nn::padding_mode(o) != "kZeros")
    throw std::invalid_argument(fmt::format("{}: expected a convolution that pads zeros, found {}",
                                            name, nn::padding_mode(o)));
  const auto pads = nn::paddings<2>(o);
  const torch::Tensor bias = conv.bias.defined() ? conv.bias : torch::zeros({o.out_channels()});
  return {conv.weight.detach().contiguous(),
          bias.detach(),
          {(*o.stride())[0], (*o.stride())[1]},
          {(*o.dilation())[0], (*o.dilation())[1]},
          {pads[0].first, pads[1].first, pads[0].second, pads[1].second},
          o.groups()};
}

LinearStep step_of(const torch::nn::LinearImpl& linear) {
  const auto& o = linear.options;
  return {linear.weight.detach().contiguous(),
          linear.bias.defined() ? linear.bias.detach() : torch::zeros({o.out_features()})};
}

bool largest_of_all(const torch::nn::AnyModule& module) {
  const auto pool = nn::as<torch::nn::AdaptiveMaxPool2dImpl>(module);
  return pool && (*pool->options.output_size())[0] == 1 && (*pool->options.output_size())[1] == 1;
}

}  // namespace

const std::vector<std::string>& input_form_names() {
  static const std::vector<std::string> names = {"bytes", "floats", "unit", "scaled"};
  return names;
}

InputForm parse_input_form(const std::string& name) {
  const auto& names = input_form_names();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<InputForm>(i);
  throw std::invalid_argument("--input: expected " + base::join_choices(names) + ", found '" +
                              name + "'" + base::suggestion(name, names));
}

std::string to_string(InputForm form) { return input_form_names()[static_cast<size_t>(form)]; }

std::vector<Step> steps_of(const torch::nn::Sequential& net) {
  std::vector<Step> out;
  for (const nn::Element& element : nn::elements_of(net)) {
    const torch::nn::AnyModule& m = element.module;
    Step step{element.name, ReluStep{}};
    if (const auto conv = nn::as<torch::nn::Conv2dImpl>(m))
      step.what = step_of(*conv, element.name);
    else if (const auto linear = nn::as<torch::nn::LinearImpl>(m))
      step.what = step_of(*linear);
    else if (nn::flattens_all(m))
      step.what = FlattenStep{};
    else if (nn::averages_all(m) || largest_of_all(m))
      step.what = PoolStep{nn::averages_all(m)};
    else if (!nn::as<torch::nn::ReLUImpl>(m))
      throw std::invalid_argument(fmt::format(
          "{}: expected a Conv2d, ReLU, pooling over all places, Flatten or Linear, found {}",
          element.name, m.ptr()->name()));
    out.push_back(std::move(step));
  }
  return out;
}

PlainNet plain_net(const train::Checkpoint& checkpoint, InputForm input) {
  const torch::NoGradGuard no_grad;
  PlainNet out;
  out.net = fold(with_scaling(checkpoint.net->as_sequential(), checkpoint.scale, input));
  out.steps = steps_of(out.net);
  out.input = input;
  out.image = checkpoint.image;
  out.classes = checkpoint.net->fc->options.out_features();
  out.facts = {{"layer", run::layers_text(checkpoint.config)},
               {"data", data::data_title(checkpoint.config.data)},
               {"epochs", std::to_string(checkpoint.state.epoch)},
               {"input", to_string(input)},
               {"orthobatch", ORTHOBATCH_VERSION}};
  return out;
}

torch::Tensor as_input(const PlainNet& net, const data::InputScale& scale,
                       const torch::Tensor& bytes) {
  if (net.input == InputForm::bytes) return bytes;
  torch::Tensor x = bytes.to(torch::kFloat);
  if (net.input == InputForm::floats) return x;
  if (net.input == InputForm::unit) return x / 255;
  const auto by_channel = [](const std::vector<double>& values) {
    return torch::tensor(values, torch::kDouble).view({1, -1, 1, 1});
  };
  return ((x.to(torch::kDouble) / 255 - by_channel(scale.mean)) / by_channel(scale.deviation))
      .to(torch::kFloat);
}

}  // namespace orthobatch::exporter
