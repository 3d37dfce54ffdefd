// The state of a layer, as it is saved, loaded and set from outside: what does not fit is refused
// before it is used.

#include <sstream>

#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using test::expect_says;
using test::message_of;
using torch::Tensor;

template <typename Module>
std::string saved(const Module& module) {
  std::ostringstream out;
  torch::save(module, out);
  return out.str();
}

template <typename Module>
std::string refusal(Module& module, const std::string& archive) {
  std::istringstream in(archive);
  return message_of([&] { torch::load(module, in); });
}

TEST(State, OfOtherChannelsIsRefusedAndTheLayerUnchanged) {
  struct Case {
    const char* spec;
    int64_t from, to;
  };
  for (const Case& c : {Case{"ZCA(1e-5)", 1, 64},
                        {"LDL(1e-5)", 1, 64},
                        {"BN", 8, 512},
                        {"ZCA(1e-5)->W", 4, 5},
                        {"PLDLP(1e-5)", 64, 1}}) {
    BatchOrtho2d from(c.from, c.spec), to(c.to, c.spec);
    to->forward(torch::randn({c.to + 2, c.to, 2, 2}));
    to->eval();
    const Tensor x = torch::randn({2, c.to, 3, 3}), before = to->forward(x);
    expect_says(refusal(to, saved(from)), {"BatchOrtho2d", "of size", "the layer is unchanged"});
    EXPECT_TRUE(to->forward(x).equal(before)) << c.spec;
  }
}

// torch::load of a net goes past a layer's own load where tensors are set one by one.
TEST(State, SetFromOutsideIsCheckedByEveryForward) {
  const Tensor x = torch::randn({8, 4, 2, 2});
  const auto refused = [&](const char* spec, auto set, std::initializer_list<const char*> parts) {
    for (const bool training : {true, false}) {
      BatchOrtho2d layer(4, spec);
      layer->train(training);
      set(*layer);
      expect_says(message_of([&] { layer->forward(x); }), parts);
    }
  };
  refused("ZCA", [](BatchOrtho2dImpl& l) { l.running_mean.set_data(torch::zeros({1})); },
          {"running_mean of size [4], got [1]"});
  refused("LDL",
          [](BatchOrtho2dImpl& l) {
            l.running_cov.set_data(torch::ones({1, 1}, torch::kDouble));
          },
          {"running_cov of size [4, 4], got [1, 1]"});
  refused("LDL", [](BatchOrtho2dImpl& l) { l.running_cov.set_data(torch::eye(4)); },
          {"running_cov", "as Double, got Float"});
  refused("BN", [](BatchOrtho2dImpl& l) { l.running_var.set_data(torch::ones({5})); },
          {"running_var of size [4], got [5]"});
  refused("ZCA->W->Gamma", [](BatchOrtho2dImpl& l) { l.skew.set_data(torch::zeros({3})); },
          {"skew of size [6], got [3]"});
  refused("ZCA",
          [](BatchOrtho2dImpl& l) {
            l.weight.set_data(torch::ones({2, 2}));
          },
          {"weight of size [4], got [2, 2]"});
}

TEST(State, OfAnotherSpecIsNamedNotTaken) {
  BatchOrtho2d ldl(4, "LDL(1e-5)");
  BatchOrtho2d zca(4, "ZCA(1e-5)");
  expect_says(refusal(ldl, saved(zca)),
              {"expected a state of LDL(1e-5), got one of ZCA(1e-5)", "unchanged"});
  BatchOrtho2d groups(4, "ZCA(1e-5,group_size=2)"), pivots(4, "PLDLP(1e-5)"),
      complete(4, "PLDLP(1e-5,complete)");
  EXPECT_NE(refusal(groups, saved(zca)), "");
  EXPECT_NE(refusal(complete, saved(pivots)), "");

  // Inside a net too, by the layer's name.
  torch::nn::Sequential from(zca), to(ldl);
  expect_says(refusal(to, saved(from)), {"got one of ZCA(1e-5)"});
}

TEST(State, OfOtherNumbersOfTheSameMethodIsTaken) {
  BatchOrtho2d one(4, "ZCA(1e-5)"), other(4, "ZCA(1e-3,1e6,gradient=paper)");
  one->forward(torch::randn({8, 4, 2, 2}));
  std::istringstream in(saved(one));
  torch::load(other, in);
  EXPECT_TRUE(other->running_cov.equal(one->running_cov));
}

TEST(State, MomentumIsCheckedWhenItIsUsed) {
  BatchOrtho2d layer(4, "ZCA(1e-5)");
  layer->options.momentum(1.5);
  const Tensor x = torch::randn({8, 4, 2, 2}), before = layer->running_cov.clone();
  expect_says(message_of([&] { layer->forward(x); }),
              {"BatchOrtho2d", "momentum from 0 to 1", "1.5"});
  EXPECT_TRUE(layer->running_cov.equal(before));
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 0);
  layer->options.momentum(c10::nullopt);
  layer->forward(x);
}

TEST(State, LayersOfAConstNetAreConst) {
  torch::nn::Sequential net(BatchOrtho2d(4, "ZCA"), BatchOrtho2d(4, "BN"));
  const torch::nn::Module& fixed = *net;
  static_assert(
      std::is_same_v<decltype(layers_of(fixed))::value_type::second_type, const BatchOrthoLayer*>);
  EXPECT_EQ(layers_of(fixed).size(), 2u);
  layers_of(*net)[1].second->options.momentum(0.5);
  EXPECT_EQ(layers_of(fixed)[1].second->options.momentum(), 0.5);
}

}  // namespace
}  // namespace orthobatch
