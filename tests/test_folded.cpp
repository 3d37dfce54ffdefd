// A layer folded into what reads it against the pair itself: output, running statistics and every
// gradient.

#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;
namespace nn_ = torch::nn;

/// Everything a training step gives.
struct Step {
  Tensor y, dx;
  std::vector<std::pair<std::string, Tensor>> gradients, buffers;
};

template <typename Forward>
Step step(const Forward& forward, nn_::Module& norm, nn_::Module& reader, const Tensor& data) {
  Tensor x = data.detach().clone().requires_grad_();
  const Tensor y = forward(x);
  const Tensor h = test::correlated(y.sizes(), 9, y.scalar_type()) - 1.0;
  (y * h).sum().backward();
  Step out{y.detach(), x.grad(), {}, {}};
  for (const nn_::Module* module : {&norm, &reader}) {
    for (auto& p : module->named_parameters()) {
      out.gradients.emplace_back(p.key(), p.value().grad().clone());
      p.value().mutable_grad().reset();
    }
    for (auto& b : module->named_buffers()) out.buffers.emplace_back(b.key(), b.value().clone());
  }
  return out;
}

void expect_same(const Step& found, const Step& expected, double tolerance,
                 const std::string& what) {
  EXPECT_LT(test::relative_error(found.y, expected.y), tolerance) << what << ", y";
  EXPECT_LT(test::relative_error(found.dx, expected.dx), tolerance) << what << ", x";
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (size_t k = 0; k < found.gradients.size(); ++k)
    EXPECT_LT(test::relative_error(found.gradients[k].second, expected.gradients[k].second),
              tolerance)
        << what << ", gradient of " << found.gradients[k].first;
  for (size_t k = 0; k < found.buffers.size(); ++k)
    EXPECT_LT(test::relative_error(found.buffers[k].second, expected.buffers[k].second), tolerance)
        << what << ", " << found.buffers[k].first;
}

/// A pair of modules with parameters away from their initial values.
template <typename Norm, typename Reader>
void prepare(Norm& norm, Reader& reader, torch::Dtype type) {
  norm->to(torch::kDouble);
  reader->to(torch::kDouble);
  test::randomize_parameters(norm, 5);
  test::randomize_parameters(reader, 6);
  norm->to(torch::kFloat);
  reader->to(torch::kFloat);
  norm->to(type);
  reader->to(type);
}

std::string describe(const nn_::Conv2dOptions& o, const std::string& spec) {
  std::ostringstream out;
  out << spec << " into " << *nn_::Conv2d(o);
  return out.str();
}

/// The folded pair in `found_type` against the pair in `expected_type`.
void compare(const BatchOrthoOptions& norm_options, const nn_::Conv2dOptions& conv_options,
             const Tensor& data, torch::Dtype found_type, torch::Dtype expected_type,
             double tolerance, const std::string& what, bool folds = true) {
  torch::manual_seed(3);
  BatchOrtho2d norm(norm_options);
  nn_::Conv2d conv(conv_options);
  prepare(norm, conv, found_type);
  BatchOrtho2d other_norm(norm_options);
  nn_::Conv2d other_conv(conv_options);
  {
    torch::NoGradGuard no_grad;
    for (const auto& p : norm->named_parameters())
      other_norm->named_parameters()[p.key()].copy_(p.value());
    for (const auto& p : conv->named_parameters())
      other_conv->named_parameters()[p.key()].copy_(p.value());
  }
  other_norm->to(expected_type);
  other_conv->to(expected_type);
  FoldedConv2d folded(norm, conv);
  const Step found =
      step([&](const Tensor& x) { return folded(x); }, *norm, *conv, data.to(found_type));
  const Step expected = step([&](const Tensor& x) { return other_conv(other_norm(x)); },
                             *other_norm, *other_conv, data.to(expected_type));
  const std::string name = describe(conv_options, to_string(norm_options.spec())) + ", " + what;
  expect_same(found, expected, tolerance, name);
  if (folds) EXPECT_EQ(norm->last_batch().unfolded, 0) << name;

  // In evaluation too, from the cache and with gradients.
  norm->eval();
  other_norm->eval();
  const Step average =
      step([&](const Tensor& x) { return folded(x); }, *norm, *conv, data.to(found_type));
  const Step expected_average = step([&](const Tensor& x) { return other_conv(other_norm(x)); },
                                     *other_norm, *other_conv, data.to(expected_type));
  expect_same(average, expected_average, tolerance, name + ", evaluation");
  torch::NoGradGuard no_grad;
  for (int time = 0; time < 2; ++time)
    EXPECT_LT(test::relative_error(folded(data.to(found_type)), expected_average.y), tolerance)
        << name << ", evaluation without gradients";
}

class Folded : public testing::TestWithParam<std::string> {};

constexpr double folded_tolerance = 1e-12;

TEST_P(Folded, IsThePairInDouble) {
  const Tensor x = test::correlated({8, 12, 9, 8}, 1);
  for (const int64_t stride : {1, 2})
    for (const int64_t padding : {0, 1})
      for (const bool last : {false, true})
        compare(BatchOrthoOptions(12, LayerSpec(GetParam())),
                nn_::Conv2dOptions(12, 5, 3).stride(stride).padding(padding),
                last ? x.contiguous(torch::MemoryFormat::ChannelsLast) : x, torch::kDouble,
                torch::kDouble, folded_tolerance, last ? "channels last" : "contiguous");
}

TEST_P(Folded, AgreesWithDoubleInFloat) {
  const Tensor x = test::correlated({32, 12, 9, 9}, 1, torch::kFloat);
  for (const int64_t padding : {0, 1}) {
    const auto conv = nn_::Conv2dOptions(12, 8, 3).padding(padding);
    const BatchOrthoOptions norm(12, LayerSpec(GetParam()));
    const auto check = [&](const Tensor& data, const std::string& what) {
      compare(norm, conv, data.contiguous(torch::MemoryFormat::ChannelsLast), torch::kFloat,
              torch::kDouble, tolerance::float_against_double, what, /*folds=*/false);
    };
    check(x, "plain");
    // On both sides of where the layer folds.
    for (const double mean : {3., 10., 30., 100., 1e4})
      check(x + mean * torch::linspace(-1, 1, 12).view({1, 12, 1, 1}),
            "mean of " + std::to_string(mean) + " deviations");
    const Tensor noise = test::correlated({32, 12, 9, 9}, 77, torch::kFloat).select(1, 3);
    for (const double part : {0.25, 0.1, 0.05, 0.02, 0.01, 0.001}) {
      Tensor near = x.clone();
      near.select(1, 11).copy_(x.select(1, 0) + part * noise);
      check(near, "channels that differ by " + std::to_string(part));
    }
    const LayerSpec& spec = norm.spec();
    const bool ties = spec.method() == "PLDLP" && spec.value("complete") != 0;
    if (ties || spec.value("eps") < 1e-5) continue;  // no gradient there
    Tensor twice = x.clone();
    twice.select(1, 11).copy_(x.select(1, 0));
    check(twice, "duplicated channels");
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Folded, testing::ValuesIn(test::all_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

}  // namespace
}  // namespace orthobatch
