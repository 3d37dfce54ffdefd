#include "ops/consumer.h"

#include <torch/torch.h>

#include "kernels/matmul.h"
#include "kernels/passes.h"
#include "kernels/tiles.h"

namespace orthobatch::ops {
namespace {

/// (batch, C, …) as a matrix of batch rows, places in the order of x's memory.
torch::Tensor flat(const torch::Tensor& t, bool sample_major) {
  return (sample_major ? t.movedim(1, -1) : t).reshape({t.size(0), -1});
}

bool is_sample_major(const torch::Tensor& x) { return kernels::layout_of(x).sample_major; }

/// The inverse of `flat`, a view.
torch::Tensor unflat(const torch::Tensor& matrix, const torch::Tensor& like, bool sample_major) {
  const torch::Tensor shape = sample_major ? like.movedim(1, -1) : like;
  std::vector<int64_t> sizes = shape.sizes().vec();
  sizes[0] = matrix.size(0);
  const torch::Tensor t = matrix.view(sizes);
  return sample_major ? t.movedim(-1, 1) : t;
}

}  // namespace

torch::Tensor ConvolutionConsumer::forward(const torch::Tensor& x, const torch::Tensor& weight,
                                           const torch::Tensor& bias) const {
  const std::vector<int64_t> none(geometry_.stride.size());
  return at::convolution(x.to(weight.scalar_type()), weight, bias, geometry_.stride, geometry_.padding, geometry_.dilation,
                         /*transposed=*/false, none, geometry_.groups);
}

Consumer::Gradients ConvolutionConsumer::backward(const torch::Tensor& h, const torch::Tensor& x,
                                                  const torch::Tensor& weight,
                                                  Wanted wanted) const {
  const std::vector<int64_t> none(geometry_.stride.size());
  auto [input, dweight, bias] = at::convolution_backward(
      h, x.to(weight.scalar_type()), weight, c10::nullopt, geometry_.stride, geometry_.padding, geometry_.dilation,
      /*transposed=*/false, none, geometry_.groups, {wanted.input, wanted.weight, false});
  return {input, dweight};
}

std::vector<int64_t> Convolution::beforehand() const {
  std::vector<int64_t> out;
  bool any = false;
  for (auto p = padding.rbegin(); p != padding.rend(); ++p) {
    out.push_back(zeros ? 0 : p->first);
    out.push_back(zeros ? p->second - p->first : p->second);
    any = any || out.back() != 0 || out[out.size() - 2] != 0;
  }
  if (!any) out.clear();
  return out;
}

std::vector<int64_t> Convolution::packed() const {
  std::vector<int64_t> out = {groups, zeros ? 1 : 0};
  out.insert(out.end(), stride.begin(), stride.end());
  out.insert(out.end(), dilation.begin(), dilation.end());
  for (const auto& [first, last] : padding) {
    out.push_back(first);
    out.push_back(last);
  }
  return out;
}

Convolution Convolution::unpacked(at::IntArrayRef values) {
  TORCH_CHECK(values.size() >= 6 && (values.size() - 2) % 4 == 0,
              "expected a convolution as groups, whether zeros stand around it, strides, dilations "
              "and paddings, got ",
              values);
  const size_t directions = (values.size() - 2) / 4;
  const at::IntArrayRef all = values.slice(2);
  Convolution out;
  out.groups = values[0];
  out.zeros = values[1] != 0;
  out.stride = all.slice(0, directions).vec();
  out.dilation = all.slice(directions, directions).vec();
  for (size_t d = 0; d < directions; ++d)
    out.padding.emplace_back(all[2 * directions + 2 * d], all[2 * directions + 2 * d + 1]);
  const auto from = [&](const std::vector<int64_t>& numbers, int64_t least, const char* what) {
    constexpr int64_t most = int64_t{1} << 31;
    for (const int64_t number : numbers)
      TORCH_CHECK(number >= least && number < most, "expected a convolution whose ", what,
                  " is at least ", least, ", got ", number);
  };
  from({out.groups}, 1, "number of groups");
  from(out.stride, 1, "stride");
  from(out.dilation, 1, "dilation");
  from(all.slice(2 * directions).vec(), 0, "padding");
  return out;
}

std::shared_ptr<const Consumer> convolution_consumer(const Convolution& convolution,
                                                     at::IntArrayRef kernel, at::IntArrayRef sizes,
                                                     const std::string& who) {
  const size_t directions = kernel.size();
  TORCH_CHECK(sizes.size() == directions + 2 && convolution.stride.size() == directions, who,
              " folded into a Conv", convolution.stride.size(), "d: expected ",
              convolution.stride.size() + 2, "D input and weight (got ", sizes.size(), "D and ",
              directions + 2, "D)");
  ConvolutionConsumer::Geometry geometry{
      convolution.stride, {}, convolution.dilation, {}, convolution.groups};
  std::vector<Extent> extents;
  bool pads_zeros = false;
  for (size_t d = 0; d < directions; ++d) {
    const auto [first, last] = convolution.padding[d];
    const int64_t size = sizes[d + 2], stride = convolution.stride[d],
                  dilation = convolution.dilation[d];
    geometry.padding.push_back(convolution.zeros ? first : 0);
    TORCH_CHECK(kernel[d] >= 1 && kernel[d] < int64_t{1} << 31, who,
                ": expected a convolution of one tap or more, got ", kernel);
    const int64_t span = dilation * (kernel[d] - 1) + 1, reach = size + first + last - span;
    TORCH_CHECK(reach >= 0, who, " folded into a Conv", directions, "d: expected at least ",
                span - first - last, " places in direction ", d, ", got ", size);
    geometry.out.push_back(reach / stride + 1);
    extents.push_back({size, geometry.out.back(), kernel[d], stride, first, dilation});
    pads_zeros = pads_zeros || (convolution.zeros && first + last > 0);
  }
  // Other modes than zeros repeat values of Z, and as well of X: no place has taps outside.
  if (!pads_zeros) extents.clear();
  return std::make_shared<ConvolutionConsumer>(std::move(geometry), Border(extents));
}

torch::Tensor LinearConsumer::forward(const torch::Tensor& x, const torch::Tensor& weight,
                                      const torch::Tensor& bias) const {
  const bool sample_major = is_sample_major(x);
  torch::Tensor y = kernels::matmul(flat(x, sample_major).to(weight.scalar_type()), false,
                                    flat(weight, sample_major), true);
  return y.add_(bias);
}

Consumer::Gradients LinearConsumer::backward(const torch::Tensor& h, const torch::Tensor& x,
                                             const torch::Tensor& weight, Wanted wanted) const {
  const bool sample_major = is_sample_major(x);
  Gradients out;
  if (wanted.input)
    out.input =
        unflat(kernels::matmul(h, false, flat(weight, sample_major), false), x, sample_major);
  if (wanted.weight)
    out.weight =
        unflat(kernels::matmul(h, true, flat(x, sample_major).to(weight.scalar_type()), false), x,
               sample_major);
  return out;
}

torch::Tensor as_samples(const torch::Tensor& weight, int64_t groups) {
  if (groups == 1) return kernels::dense_layout(weight);
  std::vector<int64_t> sizes = weight.sizes().vec();
  sizes[0] /= groups;
  sizes.insert(sizes.begin(), groups);
  const torch::Tensor apart = weight.reshape(sizes).transpose(0, 1);  // C_out/g, g, C_in/g, taps
  sizes = weight.sizes().vec();
  sizes[0] /= groups;
  sizes[1] *= groups;
  return apart.reshape(sizes).contiguous();
}

torch::Tensor from_samples(const torch::Tensor& samples, int64_t groups) {
  if (groups == 1) return samples;
  std::vector<int64_t> sizes = samples.sizes().vec();
  sizes[1] /= groups;
  sizes.insert(sizes.begin() + 1, groups);
  const torch::Tensor apart = samples.reshape(sizes).transpose(0, 1);  // g, C_out/g, C_in/g, taps
  sizes = samples.sizes().vec();
  sizes[0] *= groups;
  sizes[1] /= groups;
  return apart.reshape(sizes).contiguous();
}

}  // namespace orthobatch::ops
