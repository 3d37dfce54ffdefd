// Several processes, in parts that need only one: where they meet, what each takes, how gradients
// are summed. (With processes: test_processes.sh.)

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>

#include "data/batches.h"
#include "data/synthetic.h"
#include "ranks/ranks.h"
#include "rooms.h"
#include "train/gradient_sum.h"

namespace orthobatch::test {
namespace {

std::optional<ranks::Place> place_in(std::map<std::string, std::string> variables) {
  return ranks::place_from([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

std::string refusal(const std::map<std::string, std::string>& variables) {
  try {
    place_in(variables);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

const std::map<std::string, std::string> good = {
    {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "node-7"}, {"MASTER_PORT", "29500"}};

TEST(Place, ReadsTheEnvironmentEveryoneUses) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"MASTER_PORT", "29500"}}));
  const auto place = place_in(good);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->size, 3);
  EXPECT_EQ(place->address, "node-7");
  EXPECT_EQ(place->port, 29500);
  EXPECT_FALSE(place->has_launcher);
  EXPECT_FALSE(place->keeps_store());
}

TEST(Place, LeavesTheStoreToTorchrunsAgent) {
  auto variables = good;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  variables["TORCHELASTIC_RESTART_COUNT"] = "2";
  const auto place = place_in(variables);
  EXPECT_TRUE(place->has_launcher);
  EXPECT_EQ(place->prefix, "attempt_2");
}

TEST(Place, OfOurLauncherIsAFile) {
  const auto place =
      place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {ranks::file_variable, "/a/file"}});
  EXPECT_EQ(place->address, "/a/file");
  EXPECT_EQ(place->port, 0);
  EXPECT_FALSE(place->keeps_store());
}

TEST(Place, NamesTheVariableAtFault) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"RANK", "3"}, {"WORLD_SIZE", "0"}, {"MASTER_ADDR", ""}, {"MASTER_PORT", "65536"}}) {
    auto variables = good;
    variables[name] = value;
    EXPECT_EQ(refusal(variables).rfind(name, 0), 0u) << name << ": " << refusal(variables);
    variables.erase(name);
    EXPECT_EQ(refusal(variables).rfind(name, 0), 0u) << name << ": " << refusal(variables);
  }
  auto variables = good;
  variables["RANK"] = "1 ";
  EXPECT_NE(refusal(variables).find("found '1 '"), std::string::npos) << refusal(variables);
}

TEST(Share, EveryThingIsOneHandsOwn) {
  for (const int64_t count : {0, 1, 5, 256, 257})
    for (const int hands : {1, 2, 3, 7}) {
      int64_t next = 0;
      for (int hand = 0; hand < hands; ++hand) {
        const Share share{hand, hands};
        EXPECT_EQ(share.first(count), next);
        EXPECT_LE(share.size(count), count / hands + 1);
        next = share.last(count);
      }
      EXPECT_EQ(next, count);
    }
}

TEST(Share, AnImageBecomesTheSameInWhoeversHands) {
  ImageSet set, ignored;
  load_synthetic(set, ignored);
  set.keep_first(40);
  const InputScale scale = measure_scale(set);
  BatchLoader whole(set, scale, {4, 4, 20}, 7, 1);
  whole.start(2, 11);
  std::vector<std::unique_ptr<BatchLoader>> parts;
  for (int hand = 0; hand < 3; ++hand) {
    parts.push_back(
        std::make_unique<BatchLoader>(set, scale, Augmentation{4, 4, 20}, 7, 1, Share{hand, 3}));
    parts.back()->start(2, 11);
    EXPECT_EQ(parts.back()->steps(), whole.steps());
  }
  for (int64_t step = 0; step < whole.steps(); ++step) {
    const auto expected = whole.next();
    Batch joined;
    for (auto& part : parts) {
      const auto own = part->next();
      joined.images.insert(joined.images.end(), own->images.begin(), own->images.end());
      joined.labels.insert(joined.labels.end(), own->labels.begin(), own->labels.end());
    }
    EXPECT_EQ(joined.labels, expected->labels);
    EXPECT_EQ(joined.images, expected->images);
  }
}

/// Ranks that all have this one's values, and note what is asked of them.
class Likes : public ranks::Ranks {
 public:
  explicit Likes(int size) : size_(size) {}
  int size() const override { return size_; }
  std::function<void()> begin_sum(at::Tensor t) override {
    begun.push_back(t.numel());
    return [this, t]() mutable {
      t.mul_(size_);
      ++waited;
    };
  }
  std::vector<int64_t> begun;
  int waited = 0;

 private:
  const int size_;
};

TEST(GradientSum, SendsBucketsDuringTheBackwardPassAndSumsAll) {
  torch::manual_seed(4);
  torch::nn::Sequential net(torch::nn::Conv2d(3, 8, 3), torch::nn::ReLU(), torch::nn::Flatten(),
                            torch::nn::Linear(8 * 16, 50), torch::nn::Linear(50, 4));
  for (auto& p : net->parameters())
    if (p.dim() == 4) p.set_data(p.contiguous(torch::MemoryFormat::ChannelsLast));
  torch::Tensor x = torch::randn({5, 3, 6, 6}).requires_grad_();
  net->forward(x).square().sum().backward();
  std::vector<torch::Tensor> expected;
  for (const auto& p : net->parameters()) expected.push_back(p.grad().clone());

  Likes ranks(3);
  GradientSum sum(net->parameters(), ranks, 512);
  size_t begun_before_the_end = 0;
  x.register_hook([&](const torch::Tensor&) { begun_before_the_end = ranks.begun.size(); });
  for (int pass = 0; pass < 2; ++pass) {  // a second time all is 0 again
    ranks.begun.clear();
    ranks.waited = 0;
    sum.begin();
    net->forward(x).square().sum().backward();
    EXPECT_EQ(ranks.waited, 0);
    sum.finish();
    EXPECT_GT(sum.buckets(), 2u);
    EXPECT_EQ(ranks.begun.size(), sum.buckets());
    EXPECT_EQ(ranks.waited, static_cast<int>(sum.buckets()));
    EXPECT_GE(begun_before_the_end, 1u);
    for (size_t k = 0; k < expected.size(); ++k)
      EXPECT_TRUE(torch::allclose(net->parameters()[k].grad(), 3 * expected[k], 1e-5, 1e-6)) << k;
  }
}

TEST(GradientSum, ParametersThatHadNoPartAreSummedTooInTheSameOrder) {
  torch::nn::Linear used(3, 2), unused(3, 2);
  std::vector<torch::Tensor> parameters = used->parameters();
  for (const auto& p : unused->parameters()) parameters.push_back(p);
  Likes ranks(2);
  GradientSum sum(parameters, ranks, 1);
  sum.begin();
  used(torch::ones({4, 3})).sum().backward();
  EXPECT_TRUE(ranks.begun.empty());  // the unused ones come first
  sum.finish();
  EXPECT_EQ(ranks.begun, (std::vector<int64_t>{2, 6, 2, 6}));
  EXPECT_TRUE(parameters[0].grad().equal(torch::full({2, 3}, 8.0)));
  EXPECT_TRUE(parameters[2].grad().equal(torch::zeros({2, 3})));
}

}  // namespace
}  // namespace orthobatch::test
