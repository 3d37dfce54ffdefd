// A layer folded into what reads it against the pair itself: output, running statistics and every
// gradient.

#include <algorithm>

#include "support.h"

namespace orthobatch {
namespace {

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

/// Parameters away from their initial values, which float holds exactly.
template <typename Module>
void randomize(Module& module, uint64_t seed) {
  module->to(torch::kDouble);
  test::randomize_parameters(module, seed);
  module->to(torch::kFloat);
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

constexpr double in_double = 1e-12;

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
            then, last ? channels_last(x) : x, torch::kDouble, in_double,
            last ? "channels last" : "contiguous");
}

TEST_P(Folded, IsThePairInDoubleIntoLinear) {
  const Tensor x = test::correlated({16, 12, 3, 4}, 1);
  for (const bool last : {false, true})
    compare<FoldedLinear>(BatchOrtho2d(12, LayerSpec(GetParam())), torch::nn::Linear(12 * 3 * 4, 5),
                          flat, last ? channels_last(x) : x, torch::kDouble, in_double,
                          last ? "channels last" : "contiguous");
  compare<FoldedLinear>(
      BatchOrtho2d(12, LayerSpec(GetParam())), torch::nn::Linear(12, 5),
      [](auto& norm, auto& linear, const Tensor& t) {
        return linear(norm(t).mean({2, 3}));
      },
      x, torch::kDouble, in_double, "average", Pooling::average);
  compare<FoldedLinear>(BatchOrtho1d(12, LayerSpec(GetParam())), torch::nn::Linear(12, 5), then,
                        test::correlated({64, 12}, 2), torch::kDouble, in_double, "(N, C)");
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

torch::nn::Conv2d conv2d(const torch::nn::Conv2dOptions& options) {
  return torch::nn::Conv2d(options);
}

void compare_conv(const char* spec, const torch::nn::Conv2dOptions& options, const Tensor& x,
                  const std::string& what) {
  compare<FoldedConv2d>(BatchOrtho2d(12, spec), conv2d(options), then, x, torch::kDouble, in_double,
                        what);
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

/// Batches of a step in training that were not folded.
int64_t unfolded(const char* spec, const torch::nn::Conv2dOptions& options, const Tensor& x) {
  BatchOrtho2d norm(x.size(1), spec);
  FoldedConv2d folded(norm, conv2d(options));
  folded->to(x.scalar_type());
  folded(x);
  return norm->last_batch().unfolded;
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
                        then, test::correlated({12, 6, 11}, 1), torch::kDouble, in_double, "1d");
  compare<FoldedConv3d>(BatchOrtho3d(6, "ZCA(1e-5)"),
                        torch::nn::Conv3d(torch::nn::Conv3dOptions(6, 4, 3).padding({1, 0, 2})),
                        then, test::correlated({4, 6, 4, 5, 3}, 1), torch::kDouble, in_double,
                        "3d");
  compare<FoldedLinear>(BatchOrtho1d(6, "ZCA(1e-5)"), torch::nn::Linear(6 * 4, 3), flat,
                        test::correlated({12, 6, 4}, 1), torch::kDouble, in_double, "(N, C, L)");
}

TEST(FoldedGeometry, OptionsOfTheLayer) {
  const Tensor x = test::correlated({8, 12, 7, 8}, 1);
  for (const auto& options :
       {BatchOrthoOptions(12).affine(false), BatchOrthoOptions(12).track_running_stats(false),
        BatchOrthoOptions(12).running_average(RunningAverage::transform),
        BatchOrthoOptions(12).sample_stride(2), BatchOrthoOptions(12).sample_stride(3)})
    for (const int64_t padding : {0, 1})
      compare<FoldedConv2d>(BatchOrtho2d(options),
                            conv2d(torch::nn::Conv2dOptions(12, 5, 3).padding(padding)), then, x,
                            torch::kDouble, in_double, "padding " + std::to_string(padding));
}

// --------------------------------------------------------------------------------------- modules

TEST(FoldedModule, CountsWhatItCannotFold) {
  const auto options = torch::nn::Conv2dOptions(12, 5, 3);
  const Tensor x = test::correlated({32, 12, 9, 9}, 1, torch::kFloat);
  EXPECT_EQ(unfolded("ZCA(1e-5)", options, x), 0);
  EXPECT_EQ(unfolded("ZCA(1e-5)", options, x + 1e4), 1);
  Tensor twice = x.clone();
  twice.select(1, 11).copy_(x.select(1, 0));
  EXPECT_EQ(unfolded("ZCA(1e-5)", options, twice), 1);

  BatchOrtho2d norm(12, "ZCA(1e-5)");
  FoldedConv2d folded(norm, conv2d(options));
  for (int k = 0; k < 3; ++k) folded(twice);
  folded(x);
  const auto summary = summarize(*folded);
  ASSERT_EQ(summary.size(), 1u);
  EXPECT_EQ(summary[0].name, "norm");
  EXPECT_EQ(summary[0].unfolded, 3);
}

TEST(FoldedModule, StateIsThatOfThePair) {
  FoldedConv2d folded(BatchOrtho2d(6, "ZCA(1e-5)->W"), conv2d({6, 4, 3}));
  std::vector<std::string> names;
  for (const auto& p : folded->named_parameters()) names.push_back(p.key());
  EXPECT_EQ(names,
            (std::vector<std::string>{"norm.bias", "norm.skew", "conv.weight", "conv.bias"}));
  FoldedLinear head(BatchOrtho2d(6, "BN"), torch::nn::Linear(6 * 4, 3));
  names.clear();
  for (const auto& b : head->named_buffers()) names.push_back(b.key());
  EXPECT_EQ(names, (std::vector<std::string>{"norm.running_mean", "norm.running_var",
                                             "norm.num_batches_tracked"}));
}

TEST(FoldedModule, ClonesAndSavesAsTorchsModules) {
  const Tensor x = test::correlated({8, 6, 5, 4}, 1, torch::kFloat);
  const auto check = [&](auto folded, auto other) {
    folded(x);  // running statistics away from their start
    auto copy = folded->clone();
    std::stringstream file;
    torch::save(folded, file);
    torch::load(other, file);
    folded->eval();
    other->eval();
    copy->eval();
    const Tensor y = folded(x);
    using Impl = typename decltype(folded)::ContainedType;
    EXPECT_TRUE(std::dynamic_pointer_cast<Impl>(copy)->forward(x).equal(y));
    EXPECT_TRUE(other(x).equal(y));
    torch::NoGradGuard no_grad;  // the copy is its own
    copy->named_parameters()["norm.bias"].add_(1);
    EXPECT_TRUE(folded(x).allclose(y, 1e-6, 1e-6));
    EXPECT_FALSE(std::dynamic_pointer_cast<Impl>(copy)->forward(x).allclose(y, 1e-2, 1e-2));
  };
  check(FoldedConv2d(BatchOrtho2d(6, "ZCA(1e-5)"), conv2d({6, 4, 3})),
        FoldedConv2d(BatchOrtho2d(6, "ZCA(1e-5)"), conv2d({6, 4, 3})));
  check(FoldedLinear(BatchOrtho2d(6, "LDL(1e-5)"), torch::nn::Linear(6 * 20, 3)),
        FoldedLinear(BatchOrtho2d(6, "LDL(1e-5)"), torch::nn::Linear(6 * 20, 3)));
}

TEST(FoldedModule, EvaluationFollowsEveryChange) {
  const Tensor x = test::correlated({8, 6, 5, 4}, 1);
  BatchOrtho2d norm(6, "ZCA(1e-5)");
  torch::nn::Conv2d conv = conv2d(torch::nn::Conv2dOptions(6, 4, 3).padding(1));
  FoldedConv2d folded(norm, conv);
  folded->to(torch::kDouble);
  folded(x);
  folded->eval();
  torch::NoGradGuard no_grad;
  const auto same = [&] { return test::relative_error(folded(x), conv(norm(x))) < in_double; };
  EXPECT_TRUE(same());
  conv->weight.data_ptr<double>()[7] += 1;  // behind torch's back
  EXPECT_TRUE(same());
  conv->bias.data_ptr<double>()[1] += 1;
  EXPECT_TRUE(same());
  norm->weight.data_ptr<double>()[2] += 1;
  EXPECT_TRUE(same());
  norm->running_cov.mul_(2);
  EXPECT_TRUE(same());
  conv->weight.set_data(conv->weight * 2);
  EXPECT_TRUE(same());
  EXPECT_TRUE(test::relative_error(folded(x.narrow(2, 0, 3)), conv(norm(x.narrow(2, 0, 3)))) <
              in_double);
}

TEST(FoldedModule, GradientsOfPartsAlone) {
  const Tensor data = test::correlated({8, 6, 5, 4}, 1);
  BatchOrtho2d norm(6, "ZCA(1e-5)");
  torch::nn::Conv2d conv = conv2d({6, 4, 3});
  FoldedConv2d folded(norm, conv);
  folded->to(torch::kDouble);
  const auto gradient = [&](bool fold, const Tensor& of) {
    Tensor x = data.clone().requires_grad_();
    const Tensor y = fold ? folded(x) : conv(norm(x));
    return torch::autograd::grad({y.pow(3).sum()}, {of.defined() ? of : x})[0];
  };
  for (const Tensor& of : {Tensor(), norm->weight, norm->bias, conv->weight, conv->bias})
    EXPECT_LT(test::relative_error(gradient(true, of), gradient(false, of)), in_double);
  for (const bool training : {true, false}) {
    folded->train(training);
    for (torch::Tensor& p : folded->parameters()) p.set_requires_grad(false);
    EXPECT_LT(test::relative_error(gradient(true, {}), gradient(false, {})), in_double);
    EXPECT_FALSE(folded(data).requires_grad());
    for (torch::Tensor& p : folded->parameters()) p.set_requires_grad(true);
    EXPECT_TRUE(folded(data).requires_grad());
  }
}

TEST(FoldedModule, FrozenInEvaluationItStillHasAGradientOfItsInput) {
  BatchOrtho2d norm(6, "ZCA(1e-5)");
  torch::nn::Linear linear(6 * 20, 3);
  FoldedLinear folded(norm, linear);
  folded->to(torch::kDouble);
  folded(test::correlated({8, 6, 5, 4}, 1));
  folded->eval();
  for (torch::Tensor& p : folded->parameters()) p.set_requires_grad(false);
  const auto gradient = [&](bool fold) {
    Tensor x = test::correlated({8, 6, 5, 4}, 2).requires_grad_();
    const Tensor y = fold ? folded(x) : linear(norm(x).flatten(1));
    return torch::autograd::grad({y.pow(3).sum()}, {x})[0];
  };
  EXPECT_LT(test::relative_error(gradient(true), gradient(false)), in_double);
}

TEST(FoldedModule, RefusesWhatThePairRefuses) {
  BatchOrtho2d norm(6, "ZCA(1e-5)");
  FoldedConv2d folded(norm, conv2d({6, 4, 3}));
  const auto says = [&](const Tensor& x, const char* words) {
    EXPECT_NE(test::message_of([&] { folded(x); }).find(words), std::string::npos)
        << test::message_of([&] { folded(x); });
  };
  says(torch::randn({2, 6, 5}), "expected 4D input");
  says(torch::randn({2, 5, 5, 5}), "expected 6 channels");
  says(torch::randn({1, 6, 1, 1}), "Expected more than 1 value per channel");
  says(torch::full({2, 6, 5, 5}, NAN), "expected finite input");
  says(torch::randn({2, 6, 5, 2}), "expected at least 3 places in direction 1, got 2");
  EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 0);
  EXPECT_NE(test::message_of([] {
              FoldedConv2d(BatchOrtho2d(6, "BN"), conv2d({5, 4, 3}));
            }).find("reads the 6 channels"),
            std::string::npos);
  EXPECT_NE(test::message_of([] {
              FoldedLinear(BatchOrtho2d(6, "BN"), torch::nn::Linear(7, 4));
            }).find("maps of the 6 channels"),
            std::string::npos);
  FoldedLinear head(BatchOrtho2d(6, "BN"), torch::nn::Linear(12, 4));
  EXPECT_NE(test::message_of([&] {
              head(torch::randn({2, 6, 5, 5}));
            }).find("12 values a sample"),
            std::string::npos);
  EXPECT_EQ(folded(torch::empty({0, 6, 5, 5})).sizes(), (std::vector<int64_t>{0, 4, 3, 3}));

  Tensor x = torch::randn({4, 6, 5, 5}).requires_grad_();
  const Tensor first =
      torch::autograd::grad({folded(x).pow(2).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
  EXPECT_NE(test::message_of([&] { first.sum().backward(); }).find("differentiated once"),
            std::string::npos);
}

TEST(FoldedModule, SampledStatisticsHaveExactGradients) {
  for (const char* spec : {"ZCA(1e-5)", "BN", "LDL(1e-5)->W->Gamma"}) {
    BatchOrtho2d norm(BatchOrthoOptions(4, spec).sample_stride(2));
    randomize(norm, 5);
    norm->to(torch::kDouble);
    const Tensor data = test::correlated({6, 4, 5, 4}, 1), G = test::correlated({6, 4, 5, 4}, 2);
    Tensor x = data.clone().requires_grad_();
    (norm(x) * G).sum().backward();
    torch::NoGradGuard no_grad;
    const double h = 1e-6;
    for (const int64_t at : {0, 1, 5, 22, 47, 100, 333}) {
      const auto value = [&](double by) {
        Tensor moved = data.clone();
        moved.view(-1)[at] += by;
        return (norm(moved) * G).sum().item<double>();
      };
      EXPECT_NEAR((value(h) - value(-h)) / (2 * h), x.grad().view(-1)[at].item<double>(),
                  tolerance::gradient * x.grad().abs().max().item<double>())
          << spec << " " << at;
    }
  }
  BatchOrtho2d norm(BatchOrthoOptions(4, "ZCA(1e-5)").sample_stride(2));
  norm->to(torch::kDouble);
  const Tensor x = test::correlated({6, 4, 5, 4}, 1);
  norm(x);
  EXPECT_EQ(norm->last_batch().samples, 6 * 3 * 2);
  using torch::indexing::Slice;
  const Tensor seen = x.index({Slice(), Slice(), Slice(0, 5, 2), Slice(0, 4, 2)});
  EXPECT_LT(test::relative_error(norm->last_batch().covariance,
                                 covariance(seen) + 1e-5 * torch::eye(4, torch::kDouble)),
            in_double);
  testing::internal::CaptureStderr();
  for (int k = 0; k < 2; ++k) norm(x.narrow(0, 0, 1).narrow(2, 0, 3).narrow(3, 0, 2));
  const std::string warned = testing::internal::GetCapturedStderr();
  const std::string words = "sample_stride 2 sees 2 places for 4 channels";
  EXPECT_NE(warned.find(words), std::string::npos) << warned;
  EXPECT_EQ(warned.find(words), warned.rfind(words)) << warned;
  norm->options.sample_stride(0);
  EXPECT_NE(test::message_of([&] { norm(x); }).find("sample_stride of 1 or more, got 0"),
            std::string::npos);
}

TEST(FoldTraining, JoinsThePairsOfASequential) {
  using namespace torch::nn;
  Sequential net(Conv2d(3, 8, 3), ReLU(), BatchOrtho2d(8, "ZCA(1e-5)"), Conv2d(8, 6, 3), ReLU(),
                 BatchOrtho2d(6, "BN"), ReLU(), BatchOrtho2d(6, "LDL(1e-5)"), AdaptiveAvgPool2d(1),
                 Flatten(), Linear(6, 5), BatchOrtho1d(5, "ZCA(1e-5)"), Linear(5, 4));
  net->to(torch::kDouble);
  Sequential folded = fold_training(net);
  std::vector<std::string> names;
  for (const auto& child : folded->named_children()) names.push_back(child.key());
  EXPECT_EQ(names, (std::vector<std::string>{"0", "1", "2", "4", "5", "6", "7", "11"}));
  EXPECT_TRUE(folded->children()[2]->as<FoldedConv2d>());
  EXPECT_TRUE(folded->children()[6]->as<FoldedLinear>());
  EXPECT_TRUE(folded->children()[7]->as<FoldedLinear>());
  EXPECT_EQ(folded->parameters().size(), net->parameters().size());
  const Tensor x = test::correlated({16, 3, 9, 9}, 1);
  EXPECT_LT(test::relative_error(folded->forward(x), net->forward(x)), in_double);

  Sequential flat_net(BatchOrtho2d(3, "ZCA(1e-5)"), Flatten(), Linear(27, 4));
  flat_net->to(torch::kDouble);
  const Tensor small = test::correlated({16, 3, 3, 3}, 1);
  EXPECT_EQ(fold_training(flat_net)->size(), 1u);
  EXPECT_LT(test::relative_error(fold_training(flat_net)->forward(small), flat_net->forward(small)),
            in_double);
}

}  // namespace
}  // namespace orthobatch
