// The whole heap in one forward and backward pass: tensors, our kernels' own buffers, and what
// oneDNN and LAPACK ask for. The program is this test's own, for its malloc counts.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "bench/candidates.h"
#include "bench/shapes.h"
#include "data/rescale.h"
#include "export/answers.h"
#include "heap.h"
#include "io/pixels.h"
#include "rooms.h"
#include "run/config.h"
#include "train/net.h"

namespace orthobatch::bench {
namespace {

namespace heap = test::heap;

constexpr int64_t mib = 1 << 20;

class Heap : public testing::Test {
 protected:
  void SetUp() override {
    if (!heap::can_count()) GTEST_SKIP() << "a sanitizer has its own malloc";
  }
  void TearDown() override { heap::stop(); }
};

TEST_F(Heap, CountsTensorsAndVectors) {
  heap::start();
  {
    const torch::Tensor t = torch::empty({1 << 18});
    const std::vector<double> v(1 << 17);
    EXPECT_GE(heap::in_use(), 2 * mib);
    EXPECT_LT(heap::in_use(), 2 * mib + 65536);
  }
  EXPECT_LT(heap::in_use(), 65536);
  EXPECT_GE(heap::peak(), 2 * mib);
  heap::reset_peak();
  EXPECT_LT(heap::peak(), 65536);
}

/// Beyond x, z and their gradients, at the peak of the first pass: with all that libraries keep.
int64_t extra_bytes(const Candidate& candidate, const Shape& shape, Layout layout) {
  const torch::Tensor x = layer_input(shape, layout).requires_grad_();
  const torch::Tensor gradient = layer_gradient(shape, layout);
  const Model layer = make_layer(candidate, shape.channels);
  heap::start();
  run_pass(layer, x, gradient);
  heap::stop();
  return heap::peak() - 2 * 4 * shape.values();
}

TEST_F(Heap, NoLayerNeedsATensorMore) {
  const Shape shape{256, 128, 14, 14};  // 24.5 MiB a tensor
  torch::set_num_threads(2);
  for (const Layout layout : {Layout::channels_last, Layout::nchw})
    for (const Candidate& candidate : candidates_of()) {
      if (!candidate.spec) continue;
      EXPECT_LT(extra_bytes(candidate, shape, layout), 8 * mib)
          << candidate.name << " " << name_of(layout);
    }
  EXPECT_GT(extra_bytes({composed_row}, shape, Layout::nchw), 24 * mib);
}

/// What scaling takes beside the image it is given.
int64_t scaling_bytes(int width, int height) {
  Pixels image{width, height, 3, std::vector<uint8_t>(size_t{3} * width * height)};
  heap::start();
  rescale(std::move(image), 512, 512);
  heap::stop();
  return heap::peak();
}

TEST_F(Heap, ScalingAnImageOfAnyShapeTakesLittleMore) {
  EXPECT_LT(scaling_bytes(1, 1'000'000), 32 * mib);
  EXPECT_LT(scaling_bytes(1'000'000, 1), 32 * mib);
  EXPECT_LT(scaling_bytes(1000, 1000), 32 * mib);
}

TEST_F(Heap, ANetOfLargeImagesGetsFewOfThemAtOnce) {
  const TrainConfig paper = paper_config("svhn", "BN");
  EXPECT_EQ(DigitNet(data::ImageShape{32, 32, 3}, paper.net)->images_at_once(), 500);
  EXPECT_EQ(DigitNet(data::ImageShape{64, 64, 3}, paper.net)->images_at_once(), 500);
  TrainConfig large = paper;
  large.net.blocks = {{3, 2, 8, "BN"}};
  large.net.head = Head::average;
  EXPECT_EQ(DigitNet(data::ImageShape{2048, 2048, 3}, large.net)->images_at_once(), 5);
  heap::start();
  const data::ImageSet noise = exporter::noise_images({4096, 4096, 3});
  heap::stop();
  EXPECT_EQ(noise.count(), 1);
  EXPECT_LT(heap::peak(), 65 * mib);
  EXPECT_THROW(map_sizes(paper.net, 4096, 4096), std::invalid_argument);
}

}  // namespace
}  // namespace orthobatch::bench
