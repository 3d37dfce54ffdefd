// What `orthobatch bench` makes of its clocks: statistics, order, shapes, memory; the model of what
// exchanges cost; and that the ZCA it compares with is one.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bench/exchange.h"
#include "bench/sections.h"
#include "rooms.h"

namespace orthobatch::bench {
namespace {

const std::atomic<bool> go_on{false}, stopped{true};

Session session_of(const std::atomic<bool>& stop) {
  return {1, 2, stop, [](const std::string&) {}};
}

TEST(Times, MedianAndBest) {
  EXPECT_DOUBLE_EQ((Times{{5, 1, 3}}.median()), 3);
  EXPECT_DOUBLE_EQ((Times{{5, 1, 3, 4}}.median()), 3.5);
  EXPECT_DOUBLE_EQ((Times{{5, 1, 3}}.best()), 1);
}

TEST(RunInTurn, GoesRoundAndDoesNotCountTheFirst) {
  std::string order;
  const auto note = [&](char c, const char* part, std::optional<int64_t> memory) {
    return Contestant{c == 'C' ? "A" : std::string(1, c),
                      [&order, c, part] {
                        order += c;
                        return Sample{{part, static_cast<double>(order.size())}};
                      },
                      0, memory};
  };
  Table table{"section", "place"};
  const std::vector<Contestant> all = {note('A', total_part, 0), note('B', total_part, {}),
                                       note('C', one_thread_part, {})};
  run_in_turn(all, session_of(go_on), table);
  EXPECT_EQ(order, "ABCABCABCA");  // to warm up, twice, and for memory
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.find("A")->find(total_part)->each, (std::vector<double>{4, 7}));
  EXPECT_EQ(table.find("B")->find(total_part)->each, (std::vector<double>{5, 8}));
  EXPECT_EQ(table.median("A", one_thread_part), 7.5);
  EXPECT_EQ(table.find("B")->find(one_thread_part), nullptr);
  EXPECT_TRUE(table.find("A")->extra_bytes);
  EXPECT_FALSE(table.find("B")->extra_bytes);
  EXPECT_THROW(run_in_turn(all, session_of(stopped), table), Stopped);
  EXPECT_EQ(order.size(), 10U);
}

TEST(Shapes, Lists) {
  EXPECT_EQ(standard_shapes().size(), 8U);
  const auto some = parse_shapes("2x3x4x5,256x64x14x14");
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(to_string(some[0]), "2x3x4x5");
  EXPECT_EQ(to_string(some[1]), "256x64x14x14");
  EXPECT_EQ(some[0].samples(), 40);
  for (const char* bad : {"", "2x3x4", "2x3x4x5x6", "2x3x4x5z", "2x-3x4x5", "2x3x4x5,",
                          "2x3x4x5,,2x3x4x5", "1x3x1x1", "99999999999999999999x1x1x1"})
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
  const torch::Tensor g = layer_gradient(shape, Layout::channels_last);
  std::vector<torch::Tensor> z, dx;
  for (const char* name : {"composed", "ZCA(1e-5)"}) {
    const Model layer = make_layer(candidates_of({name}).back(), shape.channels);
    const torch::Tensor x = layer_input(shape, Layout::channels_last).requires_grad_();
    z.push_back(layer.forward(x));
    z.back().backward(g);
    dx.push_back(x.grad());
  }
  EXPECT_LT((z[0] - z[1]).abs().max().item<float>(), 1e-3);
  EXPECT_LT((dx[0] - dx[1]).norm().item<float>(), 1e-3 * dx[1].norm().item<float>());
}

TEST(Memory, SeesTensorsOfBothPasses) {
  EXPECT_EQ(peak_of_tensors([] { torch::empty({1 << 18}); }), 1 << 20);
  EXPECT_EQ(peak_of_tensors([] {
              for (int i = 0; i < 3; ++i) torch::empty({1 << 18});
            }),
            1 << 20);
  // y and, on the way back, the gradient of y² are as large as x.
  EXPECT_GE(peak_of_tensors([] {
              const torch::Tensor x = torch::empty({1 << 18}).fill_(2).requires_grad_();
              (x * x).sum().backward();
            }),
            3 << 20);
}

TEST(Memory, CountsWhatALayerNeedsBeyondItsTensors) {
  const Shape shape{64, 32, 16, 16};  // 2 MiB a tensor
  const Table table = measure_layers(shape, Layout::channels_last,
                                     candidates_of({"BN", "composed"}), session_of(go_on));
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_LT(table.find("BN")->extra_bytes, 1 << 20);                // statistics alone
  EXPECT_GT(table.find(composed_row)->extra_bytes, 2 * (2 << 20));  // centred data and more
  EXPECT_GT(table.figures.at("gemm_gflops"), 0);
}

TEST(Plan, FindsTheConstantsOfALink) {
  const Link link{80e-6, 1.5e9};
  for (const int64_t ranks : {2, 4}) {
    Table table{"exchange", ""};
    for (const int bytes : {256, 32768, 1 << 20})
      table.rows.push_back({std::to_string(bytes) + " bytes",
                            {{gather_part, {{1e3 * link.gather(bytes, ranks)}}},
                             {sum_part, {{1e3 * link.sum(bytes, ranks)}}}}});
    const Link found = fit_link(table, ranks);
    EXPECT_NEAR(found.latency, link.latency, 1e-9);
    EXPECT_NEAR(found.rate / link.rate, 1, 1e-6);
  }
}

TEST(Plan, AStepIsComputingAndWhatIsNotHiddenOfTheExchange) {
  NetLoad net{"", 100};
  net.layers = 2;
  net.forward = 4000;
  net.backward = 8000;
  net.gradients = 1e6;
  net.seconds_image = 0.01;
  const Link fast{1e-6, 1e12}, slow{1e-3, 1e6};
  EXPECT_DOUBLE_EQ(net.step(1, slow), 1);
  EXPECT_NEAR(net.step(4, fast), 0.25, 1e-4);
  EXPECT_NEAR(net.speed_up(4, fast), 4, 1e-2);
  // Gathers of both layers, and the part of the sums that outlasts two thirds of half a second.
  const double sums = 3 * 2 * 1e-3 + (8000 + 1e6) / 1e6;
  EXPECT_NEAR(net.step(2, slow), 0.5 + 2 * 1e-3 + 4000 / 1e6 + sums - 1.0 / 3, 1e-9);
  // In groups of two, four ranks gather as two do.
  const double of_all = net.step(4, slow);
  net.statistics_ranks = 2;
  EXPECT_LT(net.step(4, slow), of_all);
}

TEST(Plan, BytesOfALayer) {
  NetLoad net;
  net.add_layer(128, 64);
  EXPECT_EQ(net.layers, 1);
  EXPECT_DOUBLE_EQ(net.forward, 8 * (1 + 128 + 2 * 64 * 65 / 2));
  EXPECT_DOUBLE_EQ(net.backward, 8 * (2 * 64 * 64 + 128));
}

}  // namespace
}  // namespace orthobatch::bench
