// This program's own dsyevd_ stands before LAPACK's: it counts, and fails on demand.

#include "core/linalg.h"
#include "support.h"

namespace {
int forced_info = 0;
int calls = 0;
}  // namespace

extern "C" void dsyev_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda,
                       double* w, double* work, const int* lwork, int* info);

extern "C" void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda,
                        double* w, double* work, const int* lwork, int*, const int*, int* info) {
  ++calls;
  if (forced_info != 0) {
    *info = forced_info;
    return;
  }
  dsyev_(jobz, uplo, n, a, lda, w, work, lwork, info);
}

namespace orthobatch {
namespace {

TEST(Convergence, FailureIsNamedAndLeavesTheLayerAsItWas) {
  BatchOrtho1d layer(BatchOrthoOptions(4, "ZCAE(1e-5)").name("trunk.norm"));
  const torch::Tensor x = test::correlated({30, 4}, 1, torch::kFloat);
  layer->forward(x);
  const torch::Tensor mean = layer->running_mean.clone(), cov = layer->running_cov.clone();

  forced_info = 3;
  const std::string message = test::message_of([&] { layer->forward(2 * x); });
  forced_info = 0;
  for (const char* part : {"BatchOrtho1d(4, \"ZCAE(1e-5,1e12)\") 'trunk.norm'", "did not converge",
                           "4x4", "info 3", "running statistics are unchanged"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_TRUE(layer->running_mean.equal(mean));
  EXPECT_TRUE(layer->running_cov.equal(cov));
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 1);

  EXPECT_TRUE(test::is_finite(layer->forward(2 * x))) << "the layer goes on afterwards";
  EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 2);
}

TEST(Convergence, FailureInEvaluationKeepsTheOldFold) {
  BatchOrtho1d layer(4, "ZCA(1e-5)");
  const torch::Tensor x = test::correlated({30, 4}, 1, torch::kFloat);
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

TEST(Evaluation, FactorsOnceUntilSomethingChanges) {
  BatchOrtho1d layer(4, "ZCA(1e-5)");
  const torch::Tensor x = test::correlated({30, 4}, 1, torch::kFloat);
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
