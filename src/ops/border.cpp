#include "ops/border.h"

#include <torch/torch.h>

#include "kernels/convert.h"

namespace orthobatch::ops {
namespace {

/// out × kernel: 1 where a tap is inside the input, 0 where it is outside.
torch::Tensor inside_of(const Extent& e) {
  torch::Tensor inside = torch::zeros({e.out, e.kernel}, torch::kDouble);
  auto entry = inside.accessor<double, 2>();
  for (int64_t place = 0; place < e.out; ++place)
    for (int64_t tap = 0; tap < e.kernel; ++tap) {
      const int64_t at = place * e.stride - e.padding + tap * e.dilation;
      entry[place][tap] = at >= 0 && at < e.size ? 1 : 0;
    }
  return inside;
}

/// The same made where `like` is.
torch::Tensor inside_of(const Extent& e, const torch::Tensor& like) {
  const auto options = like.options().dtype(torch::kLong).requires_grad(false);
  const torch::Tensor at = (torch::arange(e.out, options) * e.stride - e.padding).unsqueeze(1) +
                           torch::arange(e.kernel, options) * e.dilation;
  return torch::logical_and(at >= 0, at < e.size).to(kernels::exact_type(like.device()));
}

/// Of the places where all taps are inside, which lie side by side, the first and one past the
/// last.
std::pair<int64_t, int64_t> whole_range(const Extent& e) {
  const auto whole = [&](int64_t place) {
    const int64_t first = place * e.stride - e.padding;
    return first >= 0 && first + (e.kernel - 1) * e.dilation < e.size;
  };
  int64_t begin = 0, end = e.out;
  while (begin < e.out && !whole(begin)) ++begin;
  while (end > begin && !whole(end - 1)) --end;
  return {begin, end};
}

}  // namespace

Border::Border(const std::vector<Extent>& extents) : extents_(extents) {
  Strip rest;
  for (const Extent& e : extents) {
    rest.first.push_back(0);
    rest.size.push_back(e.out);
  }
  // Before and behind the whole range of each direction; then only what lies within it.
  for (size_t d = 0; d < extents.size(); ++d) {
    const auto [begin, end] = whole_range(extents[d]);
    for (const auto& [first, last] : {std::pair<int64_t, int64_t>{0, begin}, {end, rest.size[d]}}) {
      if (first == last) continue;
      Strip strip = rest;
      strip.first[d] = first;
      strip.size[d] = last - first;
      strips_.push_back(strip);
    }
    rest.first[d] = begin;
    rest.size[d] = end - begin;
  }
  empty_ = strips_.empty();
}

std::vector<torch::Tensor> Border::inside(const torch::Tensor& like) const {
  std::vector<torch::Tensor> out;
  for (const Extent& e : extents_)
    out.push_back(like.is_cpu() ? inside_of(e) : inside_of(e, like));
  return out;
}

void Border::correct(torch::Tensor& y, const torch::Tensor& shares) const {
  const std::vector<torch::Tensor> inside = this->inside(shares);
  for (const Strip& strip : strips_) {
    torch::Tensor part = y, map = shares;
    for (size_t d = 0; d < extents_.size(); ++d) {
      part = part.narrow(static_cast<int64_t>(d) + 2, strip.first[d], strip.size[d]);
      // (C_out, taps of d, …) to (C_out, …, places of d)
      map = torch::tensordot(map, inside[d].narrow(0, strip.first[d], strip.size[d]), {1}, {1});
    }
    std::vector<int64_t> all;
    for (int64_t d = 1; d < shares.dim(); ++d) all.push_back(d);
    const torch::Tensor outside = map - shares.sum(all, /*keepdim=*/true);
    part.add_(outside.to(y.options()));
  }
}

torch::Tensor Border::missed(const torch::Tensor& h) const {
  std::vector<int64_t> taps = {h.size(1)};
  for (const Extent& e : extents_) taps.push_back(e.kernel);
  const std::vector<torch::Tensor> inside = this->inside(h);
  const torch::ScalarType exact = kernels::exact_type(h.device());
  torch::Tensor out = torch::zeros(taps, h.options().dtype(exact));
  for (const Strip& strip : strips_) {
    torch::Tensor part = h;
    for (size_t d = 0; d < extents_.size(); ++d)
      part = part.narrow(static_cast<int64_t>(d) + 2, strip.first[d], strip.size[d]);
    // In double at once, but where that were a copy on another device.
    const torch::ScalarType type =
        h.is_cpu() || h.scalar_type() == torch::kDouble ? exact : torch::kFloat;
    const torch::Tensor places = part.sum(0, /*keepdim=*/false, type).to(exact);  // (C_out, …)
    torch::Tensor hit = places;
    for (size_t d = 0; d < extents_.size(); ++d)  // (C_out, places of d, …) to (C_out, …, taps of d)
      hit = torch::tensordot(hit, inside[d].narrow(0, strip.first[d], strip.size[d]), {1}, {0});
    std::vector<int64_t> all;
    for (int64_t d = 1; d < places.dim(); ++d) all.push_back(d);
    out += places.sum(all, /*keepdim=*/true) - hit;
  }
  return out;
}

}  // namespace orthobatch::ops
