// What `orthobatch bench` makes of its clocks: statistics, order, shapes, bars; and that the ZCA it
// compares with is one.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bench/bars.h"
#include "bench/tensor_memory.h"
#include "orthobatch/modules.h"

namespace orthobatch::bench {
namespace {

const std::atomic<bool> go_on{false}, stopped{true};

Session session_of(const std::atomic<bool>& stop) {
  return {1, 2, stop, [](const std::string&, int64_t, int64_t) {}};
}

TEST(Times, MedianAndBest) {
  EXPECT_DOUBLE_EQ((Times{{5, 1, 3}}.median()), 3);
  EXPECT_DOUBLE_EQ((Times{{5, 1, 3, 4}}.median()), 3.5);
  EXPECT_DOUBLE_EQ((Times{{5, 1, 3}}.best()), 1);
}

TEST(Times, MeanAndExponent) {
  EXPECT_NEAR(geometric_mean({1, 4, 16}), 4, 1e-12);
  // 3 x^2.5, and a factor that does not correlate with log x leaves the exponent as it is.
  std::vector<double> x = {1, 2, 4, 8}, y;
  for (const double v : x) y.push_back(3 * std::pow(v, 2.5));
  EXPECT_NEAR(fitted_exponent(x, y), 2.5, 1e-12);
  y[0] *= 2;
  y[3] *= 2;
  EXPECT_NEAR(fitted_exponent(x, y), 2.5, 1e-12);
}

TEST(Interleave, GoesRoundAndDoesNotCountTheFirst) {
  std::string order;
  const auto note = [&](char c) {
    return [&order, c](bool counted) { order += counted ? c : static_cast<char>(std::tolower(c)); };
  };
  interleave({note('A'), note('B')}, session_of(go_on), 2, /*warm_up=*/true, "");
  EXPECT_EQ(order, "abABAB");
  EXPECT_THROW(interleave({note('A')}, session_of(stopped), 1, false, ""), Stopped);
  EXPECT_EQ(order, "abABAB");
}

TEST(Shapes, ListsAndPatterns) {
  EXPECT_EQ(standard_shapes().size(), 8U);
  const auto some = parse_shapes("256x*x14x14,2x3x4x5,256x64x14x14");
  ASSERT_EQ(some.size(), 3U);
  EXPECT_EQ(to_string(some[0]), "256x64x14x14");
  EXPECT_EQ(to_string(some[1]), "256x128x14x14");
  EXPECT_EQ(to_string(some[2]), "2x3x4x5");
  EXPECT_EQ(some[2].samples(), 40);
  for (const char* bad : {"", "2x3x4", "2x3x4x5x6", "2x-3x4x5", "2x3x4x5,", "9x*", "1x3x1x1"})
    EXPECT_THROW(parse_shapes(bad), std::invalid_argument) << bad;
}

TEST(Shapes, LayoutsHoldTheSameValues) {
  const Shape shape{4, 6, 3, 5};
  const torch::Tensor last = layer_input(shape, Layout::channels_last);
  const torch::Tensor nchw = layer_input(shape, Layout::nchw);
  EXPECT_TRUE(last.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(nchw.is_contiguous());
  EXPECT_TRUE(last.equal(nchw));
  EXPECT_GE(last.min().item<float>(), 0);
}

TEST(Candidates, TheCompositionIsZca) {
  const Shape shape{16, 8, 6, 6};
  const Layer composed = make_layer({Candidate::Kind::composed, {}}, shape.channels);
  const Layer ours = make_layer({Candidate::Kind::layer, LayerSpec("ZCA(1e-5)")}, shape.channels);
  const torch::Tensor g = layer_gradient(shape, Layout::channels_last);
  std::vector<torch::Tensor> z, dx;
  for (const Layer& layer : {composed, ours}) {
    const torch::Tensor x = layer_input(shape, Layout::channels_last).requires_grad_();
    z.push_back(layer.forward(x));
    z.back().backward(g);
    dx.push_back(x.grad());
  }
  EXPECT_LT((z[0] - z[1]).abs().max().item<float>(), 1e-3);
  EXPECT_LT((dx[0] - dx[1]).norm().item<float>(), 1e-3 * dx[1].norm().item<float>());
}

TEST(Memory, SeesTensorsOfBothPasses) {
  TensorMemory memory;
  {
    const torch::Tensor t = torch::empty({1 << 18});
    EXPECT_EQ(memory.in_use(), 1 << 20);
    // y and, on the way back, the gradient of y² are as large; t's own gradient stays.
    const torch::Tensor x = t.fill_(2).requires_grad_();
    (x * x).sum().backward();
    EXPECT_GE(memory.peak(), 3 << 20);
    EXPECT_EQ(memory.in_use(), 2 << 20);
  }
  EXPECT_EQ(memory.in_use(), 0);
  memory.reset_peak();
  EXPECT_EQ(memory.peak(), 0);
}

TEST(Memory, CountsWhatALayerNeedsBeyondItsTensors) {
  const Shape shape{64, 32, 16, 16};  // 2 MiB a tensor
  const auto rows = measure_memory({shape}, {Layout::channels_last},
                                   parse_candidates({"BN", "composed"}), session_of(go_on));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_LT(rows[1].extra_bytes, 1 << 20);        // our BN: statistics alone
  EXPECT_GT(rows[2].extra_bytes, 2 * (2 << 20));  // the composition: centred data and more
}

/// Results in which ZCA takes `zca` ms, torch's BatchNorm2d 1, and an N×N product 1/4.5.
Results results_with(double zca) {
  Results out;
  for (const Shape& shape : paper_shapes()) {
    LayerResult layer{shape, Layout::channels_last, {{1 / layer_products}}, {}};
    layer.rows.push_back({{Candidate::Kind::torch_bn, {}}, {{}, {}, {{1}}}, {}});
    layer.rows.push_back(
        {{Candidate::Kind::layer, LayerSpec("ZCA(1e-5)")}, {{}, {}, {{zca}}}, {{}, {}, {{2}}}});
    out.layers.push_back(layer);
  }
  return out;
}

const Bar& find(const std::vector<Bar>& bars, const std::string& what) {
  for (const Bar& bar : bars)
    if (bar.what.find(what) != std::string::npos) return bar;
  throw std::out_of_range(what);
}

TEST(Bars, MetNotMetAndNotJudged) {
  const auto good = judge(results_with(1.3), 2);
  EXPECT_EQ(find(good, "N >= 64").verdict(), Bar::Verdict::met);
  EXPECT_NEAR(*find(good, "N >= 64").median, 1.3, 1e-12);
  EXPECT_EQ(find(good, "BatchNorm2d, channels_last").verdict(), Bar::Verdict::met);
  EXPECT_EQ(find(good, "four largest").verdict(), Bar::Verdict::not_met);  // 2 / 1.3
  EXPECT_EQ(find(good, "NCHW").verdict(), Bar::Verdict::not_judged);
  EXPECT_EQ(find(good, "step with ZCA").verdict(), Bar::Verdict::not_judged);

  Results one_slow = results_with(1.0);
  one_slow.layers[2].rows[1].all.both.each = {1.36};  // 256x128x14x14
  const auto bars = judge(one_slow, 2);
  EXPECT_EQ(find(bars, "N >= 64").verdict(), Bar::Verdict::not_met);
  EXPECT_EQ(find(bars, "N >= 64").where, "256x128x14x14");
  EXPECT_EQ(find(bars, "N < 64").verdict(), Bar::Verdict::met);
  EXPECT_EQ(find(bars, "four largest").verdict(), Bar::Verdict::not_met);

  Results part = results_with(1.0);
  part.layers.pop_back();
  EXPECT_EQ(find(judge(part, 2), "N >= 64").verdict(), Bar::Verdict::not_judged);
  EXPECT_EQ(find(judge(results_with(1.0), 4), "four largest").verdict(), Bar::Verdict::not_judged);
}

}  // namespace
}  // namespace orthobatch::bench
