#pragma once
// The list of what `orthobatch bench` measures, and each thing in it.

#include <functional>
#include <vector>

#include "bench/candidates.h"
#include "bench/runner.h"
#include "bench/shapes.h"
#include "train/net.h"

namespace orthobatch::bench {

struct Request {
  std::vector<Shape> shapes;
  std::vector<Layout> layouts;
  std::vector<Candidate> candidates;
  bool quick = false;
};

struct Section {
  const char* name;
  /// Measures its tables one after the other, and hands over each when it is done.
  std::function<void(const Request&, const Session&, const std::function<void(Table)>& done)> run;
};

const std::vector<Section>& sections();

/// Every candidate at one shape and layout, on all threads and on one, in turn with a plain
/// product.
Table measure_layers(const Shape& shape, Layout layout, const std::vector<Candidate>& candidates,
                     const Session& session);

/// How the time of ZCA grows over "channels" or "samples". The exponent p of time ~ size^p, from
/// the first shape to the last, is among the figures.
Table measure_scaling(const std::string& over, const std::vector<Shape>& shapes,
                      const Session& session);

/// Forward, loss, backward and SGD step, channels last, of the same net without normalisation, with
/// torch's BatchNorm2d and with layers of ours. `data` is mnist or svhn: the paper's net, with
/// ZCA(1e-5) in every block; or "stack": the widths of ResNet-18, 3×3 convolutions to 64, 64,
/// 128, 128, 256, 256, 512 and 512 channels on maps of 32×32 places down to 4×4, each behind a
/// layer of ZCA(1e-5,group_size=64), ReLU behind each; up to `widest`.
Table measure_step(const std::string& data, int64_t batch, const Session& session,
                   int64_t widest = 512);

/// A pass without gradients of the paper's net with ZCA(1e-5) in every block: as it evaluates,
/// as fold() makes it, and without its layers. Each time is over `images` in batches.
Table measure_inference(const std::string& data, int64_t batch, int64_t images,
                        const Session& session);

/// A batch that resembles the data, mnist or svhn, or goes into the stack; channels last.
torch::Tensor input_of(const std::string& data, int64_t batch);

/// The paper's net for inputs like x, with one spec in every block.
train::DigitNet digit_net(const std::string& data, const std::string& spec, const torch::Tensor& x,
                          bool folded = true, int64_t sample_stride = 1);

}  // namespace orthobatch::bench
