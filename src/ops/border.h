#pragma once
// Zero padding behind a folded layer. Z is 0 outside the image, not P·0 + q: where a tap of the
// convolution falls outside, its share of q must not be counted. Inside all taps count, and their
// shares are part of the bias; only strips along the border differ.

#include <torch/types.h>

#include <utility>
#include <vector>

namespace orthobatch::ops {

/// A convolution along one direction.
struct Extent {
  int64_t size, out;  // places of the input and of the output
  int64_t kernel, stride, padding, dilation;
};

class Border {
 public:
  explicit Border(const std::vector<Extent>& extents);

  /// Whether every tap is inside everywhere.
  bool empty() const { return empty_; }

  /// Takes the shares of taps outside off y (batch, C_out, …), in place. `shares` (C_out, taps…),
  /// in the exact type, is what each tap adds to an output channel inside.
  void correct(torch::Tensor& y, const torch::Tensor& shares) const;

  /// For each tap the sum of h (batch, C_out, …) over samples and the places where it is outside:
  /// (C_out, taps…), in the exact type.
  torch::Tensor missed(const torch::Tensor& h) const;

 private:
  /// The strips of a (batch, C_out, …) tensor that have taps outside, disjoint: of each its first
  /// place and size by direction.
  struct Strip {
    std::vector<int64_t> first, size;
  };

  /// By direction: out × kernel, 1 where the tap is inside, on that device.
  std::vector<torch::Tensor> inside(const torch::Tensor& like) const;

  std::vector<Extent> extents_;
  std::vector<Strip> strips_;
  bool empty_;
};

}  // namespace orthobatch::ops
