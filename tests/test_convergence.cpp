// This program's own dsyevd_ stands before LAPACK's: it counts, and fails on demand. Layers of more
// than 32 channels call it.

#include "rooms.h"
#include "small_run.h"
#include "support.h"

namespace {
int forced_info = 0;
int fails_after = 0;  // so many calls
int calls = 0;
}  // namespace

extern "C" void dsyev_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda,
                       double* w, double* work, const int* lwork, int* info);

extern "C" void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda,
                        double* w, double* work, const int* lwork, int*, const int*, int* info) {
  ++calls;
  if (forced_info != 0 && calls > fails_after) {
    *info = forced_info;
    return;
  }
  dsyev_(jobz, uplo, n, a, lda, w, work, lwork, info);
}

namespace orthobatch {
namespace {

TEST(Convergence, FailureIsNamedAndLeavesTheLayerAsItWas) {
  BatchOrtho1d layer(BatchOrthoOptions(40, "ZCAE(1e-5)").name("trunk.norm"));
  const torch::Tensor x = test::correlated({90, 40}, 1, torch::kFloat);
  layer->forward(x);
  const torch::Tensor mean = layer->running_mean.clone(), cov = layer->running_cov.clone();

  forced_info = 3;
  const std::string message = test::message_of([&] { layer->forward(2 * x); });
  forced_info = 0;
  for (const char* part : {"BatchOrtho1d(40, \"ZCAE(1e-5)\") 'trunk.norm'", "did not converge",
                           "40x40", "info 3", "running statistics are unchanged"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_TRUE(layer->running_mean.equal(mean));
  EXPECT_TRUE(layer->running_cov.equal(cov));
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 1);

  EXPECT_TRUE(test::is_finite(layer->forward(2 * x))) << "the layer goes on afterwards";
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 2);
}

TEST(Convergence, FailureInEvaluationKeepsTheOldFold) {
  BatchOrtho1d layer(40, "ZCA(1e-5)");
  const torch::Tensor x = test::correlated({90, 40}, 1, torch::kFloat);
  layer->forward(x);
  layer->eval();
  const torch::Tensor z = layer->forward(x);
  layer->running_cov.mul_(2);
  forced_info = 1;
  EXPECT_THROW(layer->forward(x), FactorizationError);
  forced_info = 0;
  layer->running_cov.div_(2);
  EXPECT_TRUE(layer->forward(x).equal(z));
}

// Before the first step, in a step, and in the statistics for the evaluation of an epoch of ten
// steps in a net of two layers.
TEST(Convergence, ATrainingWhoseFactorizationFailsHasDiverged) {
  for (const int after : {0, 7, 23}) {
    const TemporaryFolder folder;
    TrainConfig config = test::small_config();
    for (auto& block : config.net.blocks) block.channels = 40;
    test::Session session(folder.path("run"), config);
    calls = 0;
    forced_info = 1;
    fails_after = after;
    std::string message;
    try {
      session.trainer.begin();
      session.trainer.run();
    } catch (const Diverged& error) {
      message = error.what();
    }
    forced_info = fails_after = 0;
    EXPECT_NE(message.find("training diverged in epoch 1"), std::string::npos) << message;
    EXPECT_NE(message.find("did not converge"), std::string::npos) << message;
    const auto metrics = test::metrics_of(folder.path("run"));
    ASSERT_EQ(metrics.size(), 1u) << after;
    EXPECT_TRUE(metrics[0].contains("diverged"));
  }
}

TEST(Evaluation, FactorsOnceUntilSomethingChanges) {
  BatchOrtho1d layer(40, "ZCA(1e-5)");
  const torch::Tensor x = test::correlated({90, 40}, 1, torch::kFloat);
  layer->forward(x);
  layer->eval();
  calls = 0;
  for (int k = 0; k < 5; ++k) layer->forward(x);
  EXPECT_EQ(calls, 1);
  layer->running_cov.mul_(2);
  for (int k = 0; k < 5; ++k) layer->forward(x);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace orthobatch
