#pragma once
// What consumes a layer's output Z: a convolution, or a linear layer over whole maps. Both are linear
// in Z, so with Z = P X + q they can read X itself with other weights and another bias.

#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/border.h"

namespace orthobatch::ops {

class Consumer {
 public:
  virtual ~Consumer() = default;

  /// y from x (what it reads), its weight (C_out, C_in of a group, taps…) and bias (C_out), in the
  /// type of the weight, as are the gradients.
  virtual torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& weight,
                                const torch::Tensor& bias) const = 0;

  struct Wanted {
    bool input, weight;
  };
  struct Gradients {
    torch::Tensor input, weight;  // undefined where they were not asked for
  };
  virtual Gradients backward(const torch::Tensor& h, const torch::Tensor& x,
                             const torch::Tensor& weight, Wanted wanted) const = 0;

  /// The sizes of the output behind samples and channels.
  virtual std::vector<int64_t> output_places() const { return {}; }

  /// The places where taps are outside; null where there are none.
  virtual const Border* border() const { return nullptr; }

  /// Groups of input channels that are read apart.
  virtual int64_t groups() const { return 1; }
};

class ConvolutionConsumer : public Consumer {
 public:
  struct Geometry {
    std::vector<int64_t> stride, padding, dilation, out;
    int64_t groups = 1;
  };

  /// For inputs of so many places; `border` where zeros stand for Z outside.
  ConvolutionConsumer(Geometry geometry, Border border)
      : geometry_(std::move(geometry)), border_(std::move(border)) {}

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& weight,
                        const torch::Tensor& bias) const override;
  Gradients backward(const torch::Tensor& h, const torch::Tensor& x, const torch::Tensor& weight,
                     Wanted wanted) const override;
  const Border* border() const override { return border_.empty() ? nullptr : &border_; }
  int64_t groups() const override { return geometry_.groups; }
  std::vector<int64_t> output_places() const override { return geometry_.out; }

 private:
  Geometry geometry_;
  Border border_;
};

/// A convolution as modules describe it.
struct Convolution {
  std::vector<int64_t> stride, dilation;
  std::vector<std::pair<int64_t, int64_t>> padding;  // places before and behind, by direction
  int64_t groups = 1;
  bool zeros = true;  // stand in those places; else values of the image itself

  /// As an argument of operators: groups, whether zeros stand there, then by direction strides,
  /// dilations, and the padding before and behind. A linear layer is an empty list.
  std::vector<int64_t> packed() const;
  static Convolution unpacked(at::IntArrayRef values);

  /// What a convolution cannot do itself, as torch's `pad` takes it (the last direction first):
  /// zeros on one side alone, and all that is no zeros. Empty where there is nothing.
  std::vector<int64_t> beforehand() const;
};

/// As it reads an input of those sizes (batch, C, …). Throws where there are too few places.
std::shared_ptr<const Consumer> convolution_consumer(const Convolution& convolution,
                                                     at::IntArrayRef kernel, at::IntArrayRef sizes,
                                                     const std::string& who);

/// Its weight has a tap for each place of the input: (C_out, C, places…).
class LinearConsumer : public Consumer {
 public:
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& weight,
                        const torch::Tensor& bias) const override;
  Gradients backward(const torch::Tensor& h, const torch::Tensor& x, const torch::Tensor& weight,
                     Wanted wanted) const override;
};

/// Weights as samples: (C_out/groups, C_in, taps…), dense. A matrix that has no entries between
/// groups then acts on them as on data.
torch::Tensor as_samples(const torch::Tensor& weight, int64_t groups);
/// And back to (C_out, C_in/groups, taps…).
torch::Tensor from_samples(const torch::Tensor& samples, int64_t groups);

}  // namespace orthobatch::ops
