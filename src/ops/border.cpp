#include "ops/border.h"

#include <torch/torch.h>

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

/// Of the places where all taps are inside, which lie side by side, the first and one past the
/// last.
std::pair<int64_t, int64_t> whole_range(const torch::Tensor& inside) {
  const torch::Tensor whole = (inside.amin(1) > 0).contiguous();
  const bool* flag = whole.data_ptr<bool>();
  const int64_t out = whole.numel();
  int64_t begin = 0, end = out;
  while (begin < out && !flag[begin]) ++begin;
  while (end > begin && !flag[end - 1]) --end;
  return {begin, end};
}

}  // namespace

Border::Border(const std::vector<Extent>& extents) {
  Strip rest;
  for (const Extent& e : extents) {
    inside_.push_back(inside_of(e));
    rest.first.push_back(0);
    rest.size.push_back(e.out);
  }
  // Before and behind the whole range of each direction; then only what lies within it.
  for (size_t d = 0; d < extents.size(); ++d) {
    const auto [begin, end] = whole_range(inside_[d]);
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

void Border::correct(torch::Tensor& y, const torch::Tensor& shares) const {
  for (const Strip& strip : strips_) {
    torch::Tensor part = y, map = shares;
    for (size_t d = 0; d < inside_.size(); ++d) {
      part = part.narrow(static_cast<int64_t>(d) + 2, strip.first[d], strip.size[d]);
      // (C_out, taps of d, …) to (C_out, …, places of d)
      map = torch::tensordot(map, inside_[d].narrow(0, strip.first[d], strip.size[d]), {1}, {1});
    }
    std::vector<int64_t> all;
    for (int64_t d = 1; d < shares.dim(); ++d) all.push_back(d);
    const torch::Tensor outside = map - shares.sum(all, /*keepdim=*/true);
    part.add_(outside.to(y.options()));
  }
}

torch::Tensor Border::missed(const torch::Tensor& h) const {
  std::vector<int64_t> taps = {h.size(1)};
  for (const torch::Tensor& inside : inside_) taps.push_back(inside.size(1));
  torch::Tensor out = torch::zeros(taps, torch::kDouble);
  for (const Strip& strip : strips_) {
    torch::Tensor part = h;
    for (size_t d = 0; d < inside_.size(); ++d)
      part = part.narrow(static_cast<int64_t>(d) + 2, strip.first[d], strip.size[d]);
    const torch::Tensor places =
        part.sum(0, /*keepdim=*/false, torch::kDouble).to(torch::kCPU);  // (C_out, …)
    torch::Tensor hit = places;
    for (size_t d = 0; d < inside_.size(); ++d)  // (C_out, places of d, …) to (C_out, …, taps of d)
      hit = torch::tensordot(hit, inside_[d].narrow(0, strip.first[d], strip.size[d]), {1}, {0});
    std::vector<int64_t> all;
    for (int64_t d = 1; d < places.dim(); ++d) all.push_back(d);
    out += places.sum(all, /*keepdim=*/true) - hit;
  }
  return out;
}

}  // namespace orthobatch::ops
