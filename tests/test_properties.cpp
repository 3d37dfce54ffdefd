// Invariances and equivariances each method has, over random seeds.

#include "rooms.h"
#include "support.h"

namespace orthobatch {
namespace {

using torch::Tensor;

/// Output and input gradient of a fresh layer for the loss ⟨G, Z⟩, (M, N) double data.
struct Passed {
  Tensor z, dx;
};

Passed pass(const std::string& spec, const Tensor& data, const Tensor& G) {
  BatchOrtho1d layer(BatchOrthoOptions(data.size(1), spec).affine(false));
  layer->to(torch::kDouble);
  Tensor x = data.clone().requires_grad_();
  Tensor z = layer->forward(x);
  (z * G).sum().backward();
  return {z.detach(), x.grad()};
}

class Seeds : public testing::TestWithParam<uint64_t> {
 protected:
  Tensor x = test::correlated({60, 7}, GetParam());
  Tensor G = test::correlated({60, 7}, GetParam() + 100) - 1.0;
};

TEST_P(Seeds, SamplesMayComeInAnyOrder) {
  torch::manual_seed(GetParam());
  const Tensor order = torch::randperm(60);
  for (const std::string& spec : test::all_specs()) {
    const Passed a = pass(spec, x, G),
                 b = pass(spec, x.index_select(0, order), G.index_select(0, order));
    EXPECT_LT(test::relative_error(b.z, a.z.index_select(0, order)), tolerance::equivariance)
        << spec;
    EXPECT_LT(test::relative_error(b.dx, a.dx.index_select(0, order)), tolerance::equivariance)
        << spec;
  }
}

TEST_P(Seeds, PermutingChannelsPermutesTheOutput) {
  torch::manual_seed(GetParam());
  const Tensor order = torch::randperm(7);
  for (const char* spec :
       {"BN", "ZCA(1e-5)", "ZCAM(1e-5,c=1/10)", "ZCAE(1e-5)", "ZCA_corr(1e-5)",
        "ZCAM_corr(1e-5)", "IterNorm(1e-5)", "PLDLP(1e-5,unpermute,complete)"}) {
    const Passed a = pass(spec, x, G),
                 b = pass(spec, x.index_select(1, order), G.index_select(1, order));
    EXPECT_LT(test::relative_error(b.z, a.z.index_select(1, order)), tolerance::equivariance)
        << spec;
    EXPECT_LT(test::relative_error(b.dx, a.dx.index_select(1, order)), tolerance::equivariance)
        << spec;
  }
}

TEST_P(Seeds, PermutingChannelsLeavesPivotsAndComponentsInPlace) {
  torch::manual_seed(GetParam());
  const Tensor order = torch::randperm(7);
  const Tensor moved = x.index_select(1, order);
  EXPECT_LT(test::relative_error(pass("PLDLP(1e-5,complete)", moved, G).z,
                                 pass("PLDLP(1e-5,complete)", x, G).z),
            tolerance::equivariance);
  const Tensor a = pass("PCA(1e-5)", moved, G).z.abs(), b = pass("PCA(1e-5)", x, G).z.abs();
  EXPECT_LT(test::relative_error(a, b), tolerance::equivariance);
}

TEST_P(Seeds, AChangeOfBasisGoesThroughZca) {
  torch::manual_seed(GetParam());
  const Tensor Q = std::get<0>(torch::linalg_qr(torch::randn({7, 7}, torch::kDouble)));
  for (const char* spec :
       {"ZCA(1e-5)", "ZCA(0)", "ZCAM(1e-5,c=1/10)", "ZCAE(1e-5)", "IterNorm(1e-5)"}) {
    const Passed a = pass(spec, x, G), b = pass(spec, x.mm(Q.t()), G.mm(Q.t()));
    EXPECT_LT(test::relative_error(b.z, a.z.mm(Q.t())), tolerance::equivariance) << spec;
    EXPECT_LT(test::relative_error(b.dx, a.dx.mm(Q.t())), tolerance::equivariance) << spec;
  }
}

TEST_P(Seeds, ShiftsOfTheDataDoNotMatter) {
  const Tensor shift = 3.0 * torch::arange(7, torch::kDouble);
  for (const std::string& spec : test::all_specs())
    EXPECT_LT(test::relative_error(pass(spec, x + shift, G).z, pass(spec, x, G).z),
              tolerance::equivariance)
        << spec;
}

TEST_P(Seeds, ScalesOfTheDataDoNotMatterWithoutEpsilon) {
  for (const char* spec :
       {"BN(0)", "ZCA(0)", "ZCAM(0)", "ZCAE(0)", "LDL(0)", "PLDLP(0)", "PCA(0)", "IterNorm(0)"})
    EXPECT_LT(test::relative_error(pass(spec, 1e3 * x, G).z, pass(spec, x, G).z),
              tolerance::equivariance)
        << spec;
  const Tensor each = torch::linspace(0.1, 10, 7, torch::kDouble);  // channel by channel
  for (const char* spec : {"BN(0)", "ZCA_corr(0,eps_bn=0)", "LDL_corr(0,eps_bn=0)", "LDL(0)"})
    EXPECT_LT(test::relative_error(pass(spec, each * x, G).z, pass(spec, x, G).z),
              tolerance::equivariance)
        << spec;
}

TEST_P(Seeds, TheGradientIsBlindToTheMean) {
  for (const std::string& spec : test::all_specs())
    EXPECT_LT(pass(spec, x, G).dx.sum(0).abs().max().item<double>(), 1e-10) << spec;
}

// With a dead channel some axis has no entry in its own channel to take its sign from.
TEST_P(Seeds, ADeadChannelDoesNotShakeTheSignsOfPca) {
  torch::manual_seed(GetParam());
  for (int64_t dead = 0; dead < 7; ++dead) {
    Tensor data = x.clone();
    data.select(1, dead).zero_();
    const Tensor z = pass("PCA(1e-5)", data, G).z;
    for (int k = 0; k < 5; ++k) {
      const Tensor order = torch::randperm(60);
      const Tensor moved = pass("PCA(1e-5)", data.index_select(0, order), G).z;
      EXPECT_LT(test::relative_error(moved, z.index_select(0, order)), 1e-6) << dead;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Random, Seeds, testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace orthobatch
