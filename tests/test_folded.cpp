// A layer folded into what reads it against the pair itself: output, running statistics and every
// gradient.

#include <algorithm>

#include "folded_pair.h"
#include "rooms.h"

namespace orthobatch {
namespace {

using test::conv2d;
using test::randomize;
using test::unfolded;
using torch::Tensor;

/// Everything a training step gives.
struct Step {
  Tensor y, dx;
  std::vector<std::pair<std::string, Tensor>> gradients, buffers;
};

template <typename Forward>
Step step(const Forward& forward, torch::nn::Module& norm, torch::nn::Module& reader,
          const Tensor& data) {
  Tensor x = data.detach().clone().requires_grad_();
  const Tensor y = forward(x);
  const Tensor h = test::correlated(y.sizes(), 9, y.scalar_type()) - 1.0;
  (y * h).sum().backward();
  Step out{y.detach(), x.grad(), {}, {}};
  for (const torch::nn::Module* module : {&norm, &reader}) {
    for (auto& p : module->named_parameters()) {
      out.gradients.emplace_back(p.key(), p.value().grad().clone());
      p.value().mutable_grad().reset();
    }
    for (auto& b : module->named_buffers()) out.buffers.emplace_back(b.key(), b.value().clone());
  }
  return out;
}

/// `found` within `tolerance` of `expected`, or as near to it as `pair`, the same step unfolded in
/// the type of `found`.
void expect_same(const Step& found, const Step& expected, const Step& pair, double tolerance,
                 const std::string& what) {
  const auto check = [&](const Tensor& f, const Tensor& e, const Tensor& p,
                         const std::string& name) {
    EXPECT_LE(test::relative_error(f, e), std::max(tolerance, test::relative_error(p, e)))
        << what << ", " << name;
  };
  check(found.y, expected.y, pair.y, "y");
  check(found.dx, expected.dx, pair.dx, "gradient of x");
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  for (size_t k = 0; k < found.gradients.size(); ++k)
    check(found.gradients[k].second, expected.gradients[k].second, pair.gradients[k].second,
          "gradient of " + found.gradients[k].first);
  ASSERT_EQ(found.buffers.size(), expected.buffers.size());
  for (size_t k = 0; k < found.buffers.size(); ++k)
    check(found.buffers[k].second, expected.buffers[k].second, pair.buffers[k].second,
          found.buffers[k].first);
}

template <typename Module>
Module copy_of(const Module& module, torch::Dtype type) {
  Module copy(std::dynamic_pointer_cast<typename Module::ContainedType>(module->clone()));
  copy->to(type);
  return copy;
}

/// The folded pair in `type` against the pair in double: in training, in evaluation with gradients,
/// and in evaluation without, from the kept weights. `pair(norm, reader, x)` is what it stands for.
template <typename FoldedModule, typename Norm, typename Reader, typename Pair, typename... Rest>
void compare(Norm norm, Reader reader, const Pair& pair, const Tensor& data, torch::Dtype type,
             double tolerance, const std::string& what, Rest... rest) {
  randomize(norm, 5);
  randomize(reader, 6);
  Norm norm_d = copy_of(norm, torch::kDouble), norm_p = copy_of(norm, type),
       norm_f = copy_of(norm, type);
  Reader reader_d = copy_of(reader, torch::kDouble), reader_p = copy_of(reader, type),
         reader_f = copy_of(reader, type);
  FoldedModule folded(norm_f, reader_f, rest...);
  const Tensor x = data.to(type), x_d = x.to(torch::kDouble);
  std::ostringstream name;
  name << *norm << " into " << *reader << ", " << what;
  for (const bool training : {true, false}) {
    for (Norm n : {norm_d, norm_p, norm_f}) n->train(training);
    const Step found = step([&](const Tensor& t) { return folded(t); }, *norm_f, *reader_f, x);
    const Step expected =
        step([&](const Tensor& t) { return pair(norm_d, reader_d, t); }, *norm_d, *reader_d, x_d);
    const Step plain =
        step([&](const Tensor& t) { return pair(norm_p, reader_p, t); }, *norm_p, *reader_p, x);
    expect_same(found, expected, plain, tolerance,
                name.str() + (training ? ", training" : ", evaluation"));
    if (training) continue;
    torch::NoGradGuard no_grad;
    for (int time = 0; time < 2; ++time)
      EXPECT_LE(test::relative_error(folded(x), expected.y),
                std::max(tolerance, test::relative_error(plain.y, expected.y)))
          << name.str() << ", evaluation without gradients";
  }
}

const auto then = [](auto& norm, auto& reader, const Tensor& x) { return reader(norm(x)); };
const auto flat = [](auto& norm, auto& reader, const Tensor& x) {
  return reader(norm(x).flatten(1));
};

Tensor channels_last(const Tensor& x) { return x.contiguous(torch::MemoryFormat::ChannelsLast); }

class Folded : public testing::TestWithParam<std::string> {};

TEST_P(Folded, IsThePairInDouble) {
  const Tensor x = test::correlated({8, 12, 9, 8}, 1);
  for (const int64_t stride : {1, 2})
    for (const int64_t padding : {0, 1})
      for (const bool last : {false, true})
        compare<FoldedConv2d>(
            BatchOrtho2d(12, LayerSpec(GetParam())),
            torch::nn::Conv2d(torch::nn::Conv2dOptions(12, 5, 3).stride(stride).padding(padding)),
            then, last ? channels_last(x) : x, torch::kDouble, tolerance::folded,
            last ? "channels last" : "contiguous");
}

TEST_P(Folded, IsThePairInDoubleIntoLinear) {
  const Tensor x = test::correlated({16, 12, 3, 4}, 1);
  for (const bool last : {false, true})
    compare<FoldedLinear>(BatchOrtho2d(12, LayerSpec(GetParam())), torch::nn::Linear(12 * 3 * 4, 5),
                          flat, last ? channels_last(x) : x, torch::kDouble, tolerance::folded,
                          last ? "channels last" : "contiguous");
  compare<FoldedLinear>(
      BatchOrtho2d(12, LayerSpec(GetParam())), torch::nn::Linear(12, 5),
      [](auto& norm, auto& linear, const Tensor& t) {
        return linear(norm(t).mean({2, 3}));
      },
      x, torch::kDouble, tolerance::folded, "average", Pooling::average);
  compare<FoldedLinear>(BatchOrtho1d(12, LayerSpec(GetParam())), torch::nn::Linear(12, 5), then,
                        test::correlated({64, 12}, 2), torch::kDouble, tolerance::folded, "(N, C)");
}

TEST_P(Folded, AgreesWithDoubleInFloat) {
  const Tensor x = test::correlated({32, 12, 9, 9}, 1, torch::kFloat);
  const LayerSpec spec = GetParam();
  for (const int64_t padding : {0, 1}) {
    const auto check = [&](const Tensor& data, const std::string& what) {
      compare<FoldedConv2d>(BatchOrtho2d(12, spec),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(12, 8, 3).padding(padding)),
                            then, channels_last(data), torch::kFloat,
                            tolerance::float_against_double, what);
    };
    check(x, "plain");
    // On both sides of where the layer folds.
    for (const double mean : {3., 10., 30., 100., 1e4})
      check(x + mean * torch::linspace(-1, 1, 12).view({1, 12, 1, 1}),
            "means of " + std::to_string(mean) + " deviations");
    const Tensor noise = test::correlated({32, 12, 9, 9}, 77, torch::kFloat).select(1, 3);
    for (const double part : {0.25, 0.1, 0.05, 0.02, 0.01, 0.001}) {
      Tensor near = x.clone();
      near.select(1, 11).copy_(x.select(1, 0) + part * noise);
      check(near, "channels that differ by " + std::to_string(part));
    }
    const bool ties = spec.method() == "PLDLP" && spec.value("complete") != 0;
    if (ties || spec.value("eps") < 1e-5) continue;  // no gradient there
    Tensor twice = x.clone();
    twice.select(1, 11).copy_(x.select(1, 0));
    check(twice, "duplicated channels");
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Folded, testing::ValuesIn(test::all_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

// ------------------------------------------------------------------------------------ geometries

void compare_conv(const char* spec, const torch::nn::Conv2dOptions& options, const Tensor& x,
                  const std::string& what) {
  compare<FoldedConv2d>(BatchOrtho2d(12, spec), conv2d(options), then, x, torch::kDouble,
                        tolerance::folded, what);
}

TEST(FoldedGeometry, AnyStrideDilationKernelAndPadding) {
  const Tensor x = test::correlated({6, 12, 9, 11}, 1);
  using Options = torch::nn::Conv2dOptions;
  const char* spec = "ZCA(1e-5)";
  for (const Options& options :
       {Options(12, 5, {3, 2}).padding({2, 1}).stride({2, 3}), Options(12, 5, 3).dilation(2),
        Options(12, 5, 3).dilation({2, 3}).padding({2, 4}).stride(2), Options(12, 5, 1).padding(2),
        Options(12, 5, 9).padding(4), Options(12, 5, {9, 11}), Options(12, 5, 5).padding(8),
        Options(12, 5, 4).stride(2).padding(1).bias(false)})
    compare_conv(spec, options, x, "a geometry");
  // So small that no place has all taps inside.
  compare_conv(spec, Options(12, 5, 7).padding(3), test::correlated({40, 12, 3, 2}, 1), "small");
}

TEST(FoldedGeometry, NamedPaddingsAndModes) {
  const Tensor x = test::correlated({6, 12, 7, 6}, 1);
  using Options = torch::nn::Conv2dOptions;
  const char* spec = "LDL(1e-5)->W->Gamma";
  compare_conv(spec, Options(12, 5, 3).padding(torch::kSame), x, "same");
  compare_conv(spec, Options(12, 5, {4, 2}).padding(torch::kSame), x, "same, one side more");
  compare_conv(spec, Options(12, 5, 3).padding(torch::kValid), x, "valid");
  compare_conv(spec, Options(12, 5, 3).padding({2, 1}).padding_mode(torch::kReflect), x, "reflect");
  compare_conv(spec, Options(12, 5, 3).padding({2, 1}).padding_mode(torch::kReplicate), x,
               "replicate");
  compare_conv(spec, Options(12, 5, 3).padding({2, 1}).padding_mode(torch::kCircular), x,
               "circular");
}

TEST(FoldedGeometry, GroupsOfChannelsThatAreReadApart) {
  const Tensor x = test::correlated({8, 12, 6, 5}, 1);
  const auto options = [](int64_t groups) {
    return torch::nn::Conv2dOptions(12, 24, 3).padding(1).groups(groups);
  };
  for (const char* spec : {"ZCA(1e-5,group_size=3)", "BN", "ZCA(1e-5)", "LDL(1e-5,group_size=2)"})
    for (const int64_t groups : {2, 4, 12})
      compare_conv(spec, options(groups), x, std::to_string(groups) + " groups");
  EXPECT_EQ(unfolded("ZCA(1e-5,group_size=3)", options(4), x), 0);
  EXPECT_EQ(unfolded("ZCA(1e-5,group_size=3)", options(2), x), 0);
  EXPECT_EQ(unfolded("BN", options(12), x), 0);
  EXPECT_EQ(unfolded("ZCA(1e-5,group_size=3)", options(12), x), 1);
  EXPECT_EQ(unfolded("ZCA(1e-5)", options(2), x), 1);
}

TEST(FoldedGeometry, OneAndThreeDirections) {
  compare<FoldedConv1d>(BatchOrtho1d(6, "ZCA(1e-5)"),
                        torch::nn::Conv1d(torch::nn::Conv1dOptions(6, 4, 3).padding(2).stride(2)),
                        then, test::correlated({12, 6, 11}, 1), torch::kDouble, tolerance::folded,
                        "1d");
  compare<FoldedConv3d>(BatchOrtho3d(6, "ZCA(1e-5)"),
                        torch::nn::Conv3d(torch::nn::Conv3dOptions(6, 4, 3).padding({1, 0, 2})),
                        then, test::correlated({4, 6, 4, 5, 3}, 1), torch::kDouble,
                        tolerance::folded, "3d");
  compare<FoldedLinear>(BatchOrtho1d(6, "ZCA(1e-5)"), torch::nn::Linear(6 * 4, 3), flat,
                        test::correlated({12, 6, 4}, 1), torch::kDouble, tolerance::folded,
                        "(N, C, L)");
}

TEST(FoldedGeometry, OptionsOfTheLayer) {
  const Tensor x = test::correlated({8, 12, 7, 8}, 1);
  for (const auto& options :
       {BatchOrthoOptions(12).affine(false), BatchOrthoOptions(12).track_running_stats(false),
        BatchOrthoOptions(12).running_average(RunningAverage::transform),
        BatchOrthoOptions(12).sample_stride(2), BatchOrthoOptions(12).sample_stride(3)})
    for (const int64_t padding : {0, 1})
      compare<FoldedConv2d>(
          BatchOrtho2d(options), conv2d(torch::nn::Conv2dOptions(12, 5, 3).padding(padding)), then,
          x, torch::kDouble, tolerance::folded, "padding " + std::to_string(padding));
}

}  // namespace
}  // namespace orthobatch
