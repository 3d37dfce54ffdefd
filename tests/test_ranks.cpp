// Layers that share their statistics with those of other ranks: against one process with the whole
// batch. The ranks are threads here, each with a net of its own; tests/gloo.cpp has processes.

#include <condition_variable>
#include <mutex>
#include <thread>

#include "folded_pair.h"
#include "rooms.h"

namespace orthobatch {
namespace {

using torch::Tensor;

/// Collectives among threads.
class Threads {
 public:
  explicit Threads(int64_t size) : slots_(size) {}

  ProcessGroup rank(int64_t rank) { return ProcessGroup(std::make_shared<Rank>(*this, rank)); }
  int64_t collectives() const { return collectives_; }

 private:
  class Rank : public Collectives {
   public:
    Rank(Threads& all, int64_t rank) : all_(all), rank_(rank) {}
    int64_t rank() const override { return rank_; }
    int64_t size() const override { return static_cast<int64_t>(all_.slots_.size()); }
    std::vector<Tensor> gather(const Tensor& t) override { return all_.gather(rank_, t); }
    void sum(Tensor& t) override {
      Tensor total = torch::zeros_like(t);
      for (const Tensor& part : all_.gather(rank_, t)) total += part;
      t.copy_(total);
    }

   private:
    Threads& all_;
    int64_t rank_;
  };

  std::vector<Tensor> gather(int64_t rank, const Tensor& t) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      slots_[rank] = t.clone();
      if (rank == 0) ++collectives_;
    }
    meet();
    std::vector<Tensor> out = slots_;
    for (const Tensor& part : out) TORCH_CHECK(part.sizes() == t.sizes(), "sizes differ");
    meet();
    return out;
  }

  void meet() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int64_t round = round_;
    if (++arrived_ == static_cast<int64_t>(slots_.size())) {
      arrived_ = 0;
      ++round_;
      all_here_.notify_all();
    } else {
      all_here_.wait(lock, [&] { return round_ != round; });
    }
  }

  std::vector<Tensor> slots_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  int64_t arrived_ = 0, round_ = 0, collectives_ = 0;
};

/// work(rank) on a thread each; what one throws is thrown here.
template <typename Work>
void on_ranks(int64_t size, const Work& work) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(size);
  for (int64_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        work(rank);
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

/// Everything a training step gives.
struct RankStep {
  Tensor y, dx;
  std::vector<Tensor> gradients, buffers;
};

template <typename Module>
RankStep rank_step(Module& module, const Tensor& data, const Tensor& h) {
  Tensor x = data.detach().clone().requires_grad_();
  const Tensor y = module->forward(x);
  (y * h).sum().backward();
  RankStep out{y.detach(), x.grad(), {}, {}};
  for (const Tensor& p : module->parameters()) out.gradients.push_back(p.grad().clone());
  for (const Tensor& b : module->buffers()) out.buffers.push_back(b.clone());
  return out;
}

BatchOrtho2d rank_layer(const std::string& spec, const ProcessGroup& group) {
  BatchOrtho2d layer(BatchOrthoOptions(6, spec).process_group(group));
  layer->to(torch::kDouble);
  test::randomize_parameters(layer, 3);
  return layer;
}

FoldedConv2d rank_pair(const std::string& spec, const ProcessGroup& group) {
  torch::manual_seed(4);
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(6, 5, 3).padding(1));
  conv->to(torch::kDouble);
  return FoldedConv2d(rank_layer(spec, group), conv);
}

/// Two steps with the batch in shards of those sizes against two with the whole.
template <typename Make>
void compare_ranks(const Make& make, const std::vector<int64_t>& shards, const std::string& what) {
  const auto ranks = static_cast<int64_t>(shards.size());
  auto whole = make(ProcessGroup());
  Threads group(ranks);
  std::vector<decltype(whole)> parts;
  for (int64_t k = 0; k < ranks; ++k) parts.push_back(make(group.rank(k)));
  for (int64_t round = 0; round < 2; ++round) {
    const Tensor x = test::correlated({10, 6, 4, 3}, 1 + round) + 3;
    const Tensor h = test::correlated({10, make(ProcessGroup())->forward(x).size(1), 4, 3}, 5) - 1;
    for (const Tensor& p : whole->parameters()) p.mutable_grad().reset();
    const RankStep expected = rank_step(whole, x, h);
    const std::vector<Tensor> xs = x.split_with_sizes(shards), hs = h.split_with_sizes(shards);
    const int64_t before = group.collectives();
    std::vector<RankStep> found(ranks);
    on_ranks(ranks, [&](int64_t k) {
      for (const Tensor& p : parts[k]->parameters()) p.mutable_grad().reset();
      found[k] = rank_step(parts[k], xs[k], hs[k]);
    });
    EXPECT_EQ(group.collectives() - before, 2) << what << ": one forward and one backward";
    std::vector<Tensor> ys, dxs;
    for (const RankStep& s : found) {
      ys.push_back(s.y);
      dxs.push_back(s.dx);
    }
    const auto near = [&](const Tensor& a, const Tensor& b, const std::string& of) {
      EXPECT_LE(test::relative_error(a, b), 1e-11) << what << ", " << of;
    };
    near(torch::cat(ys), expected.y, "output");
    near(torch::cat(dxs), expected.dx, "gradient of x");
    for (size_t k = 0; k < expected.gradients.size(); ++k) {
      Tensor total = torch::zeros_like(expected.gradients[k]);
      for (const RankStep& s : found) total += s.gradients[k];
      near(total, expected.gradients[k], "gradient " + std::to_string(k));
    }
    for (size_t k = 0; k < expected.buffers.size(); ++k) {
      near(found[0].buffers[k].to(torch::kDouble), expected.buffers[k].to(torch::kDouble),
           "buffer " + std::to_string(k));
      for (const RankStep& s : found)
        EXPECT_TRUE(s.buffers[k].equal(found[0].buffers[k])) << what << ": the ranks' own bits";
    }
  }
}

class Ranks : public testing::TestWithParam<std::string> {};

TEST_P(Ranks, UnevenAndEmptyShardsAreTheWholeBatch) {
  for (const std::vector<int64_t>& shards : {std::vector<int64_t>{3, 7}, {4, 0, 6}, {1, 5, 0, 4}})
    compare_ranks([&](const ProcessGroup& group) { return rank_layer(GetParam(), group); }, shards,
                  GetParam() + " on " + std::to_string(shards.size()));
}

TEST_P(Ranks, FoldedLayersToo) {
  compare_ranks([&](const ProcessGroup& group) { return rank_pair(GetParam(), group); }, {3, 0, 7},
                GetParam() + " folded");
}

INSTANTIATE_TEST_SUITE_P(Specs, Ranks, testing::ValuesIn(test::all_specs()),
                         [](const auto& info) { return test::test_name(info.param); });

TEST(RanksOfALayer, SampleStrideAndOneSampleEach) {
  const auto make = [](const ProcessGroup& group) {
    BatchOrtho2d layer(BatchOrthoOptions(6, "ZCA(1e-5)").sample_stride(2).process_group(group));
    layer->to(torch::kDouble);
    return layer;
  };
  compare_ranks(make, {3, 7}, "sample_stride");
  Threads group(2);
  on_ranks(2, [&](int64_t k) {
    BatchOrtho1d layer(BatchOrthoOptions(1, "ZCA(1e-5)").process_group(group.rank(k)));
    const Tensor z = layer(torch::full({1, 1}, k == 0 ? -1.f : 1.f));
    EXPECT_NEAR(z.item<float>(), k == 0 ? -1 : 1, 1e-4);
  });
}

TEST(RanksOfALayer, EvaluationAsksNobody) {
  Threads group(2);
  BatchOrtho2d layer = rank_layer("ZCA(1e-5)", group.rank(0));
  layer->eval();
  layer(test::correlated({2, 6, 3, 3}, 1));
  EXPECT_EQ(group.collectives(), 0);
}

/// The message of what `work` throws.
template <typename Work>
std::string what_is_said(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(RanksOfALayer, WhatOneRankCannotTakeAllRefuse) {
  Threads group(2);
  std::vector<std::string> said(2);
  std::vector<BatchOrtho2d> layers;
  for (int64_t k = 0; k < 2; ++k) layers.push_back(rank_layer("ZCA(1e-5)", group.rank(k)));
  on_ranks(2, [&](int64_t k) {
    Tensor x = test::correlated({2, 6, 3, 3}, 1);
    if (k == 1) x[0][2][1][1] = std::numeric_limits<double>::quiet_NaN();
    said[k] = what_is_said([&] { layers[k](x); });
  });
  test::expect_says(said[0], {"expected finite input", "in some process", "unchanged"});
  test::expect_says(said[1], {"expected finite input, got 1 NaN", "[0, 2, 1, 1]", "unchanged"});
  on_ranks(2, [&](int64_t k) {
    said[k] = what_is_said([&] { layers[k](torch::empty({0, 6, 3, 3}, torch::kDouble)); });
  });
  for (const std::string& s : said)
    test::expect_says(s, {"more than 1 value", "got 0 in all processes together"});
  for (const BatchOrtho2d& layer : layers) EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 0);
}

TEST(RanksOfALayer, SynchronizeComparesTheNets) {
  Threads group(2);
  std::vector<std::string> said(2);
  on_ranks(2, [&](int64_t k) {
    torch::nn::Sequential net(torch::nn::Conv2d(3, 4, 3), BatchOrtho2d(4, "ZCA(1e-5)"));
    convert_sync(*net, group.rank(k));
    EXPECT_TRUE(net[1]->as<BatchOrtho2dImpl>()->options.process_group());
    torch::nn::Sequential other(torch::nn::Conv2d(3, 4, 3),
                                BatchOrtho2d(4, k == 0 ? "ZCA(1e-5)" : "LDL(1e-5)"));
    said[k] = what_is_said([&] { convert_sync(*other, group.rank(k)); });
    EXPECT_FALSE(other[1]->as<BatchOrtho2dImpl>()->options.process_group());
  });
  for (const std::string& s : said)
    test::expect_says(s, {"expected the same layers in all processes", "rank 1 has others"});
}

}  // namespace
}  // namespace orthobatch
