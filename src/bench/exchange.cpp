#include "bench/exchange.h"

#include <torch/types.h>

#include <array>

namespace orthobatch::bench {

double Link::gather(double bytes, int64_t ranks) const {
  return static_cast<double>(ranks - 1) * (latency + bytes / rate);
}

double Link::sum(double bytes, int64_t ranks) const {
  return 2 * static_cast<double>(ranks - 1) * (latency + bytes / static_cast<double>(ranks) / rate);
}

/// Weighted least squares: t = a·latency + b/rate with relative weights is linear in both.
Link fit_link(const std::vector<ExchangePoint>& points, int64_t ranks) {
  double aa = 0, ab = 0, bb = 0, at = 0, bt = 0;
  const auto add = [&](double rounds, double bytes, double milliseconds) {
    const double t = milliseconds / 1e3, a = rounds / t, b = rounds * bytes / t;
    aa += a * a;
    ab += a * b;
    bb += b * b;
    at += a;
    bt += b;
  };
  const auto rounds = static_cast<double>(ranks - 1);
  for (const ExchangePoint& p : points) {
    const auto bytes = static_cast<double>(p.bytes);
    add(rounds, bytes, p.gather.median());
    add(2 * rounds, bytes / static_cast<double>(ranks), p.sum.median());
  }
  const double determinant = aa * bb - ab * ab;
  return {(at * bb - bt * ab) / determinant, determinant / (bt * aa - at * ab)};
}

Exchanges measure_exchanges(ranks::Ranks& ranks, const Session& session) {
  Exchanges out;
  out.ranks = ranks.size();
  const ProcessGroup group = ranks.statistics();
  std::vector<std::function<void(bool)>> work;
  // From a layer of 16 channels to the gradients of a small net.
  const std::array<int64_t, 6> sizes = {256, 4096, 32768, 131072, 1 << 20, 4 << 20};
  for (const int64_t bytes : sizes) out.points.push_back({bytes, {}, {}});
  for (ExchangePoint& point : out.points) {
    torch::Tensor t = torch::ones({point.bytes / 8}, torch::kDouble);
    const auto time = [](Times& times, bool counted, const auto& exchange) {
      const double start = now();
      exchange();
      if (counted) times.each.push_back(1e3 * (now() - start));
    };
    work.emplace_back([&point, group, t, time](bool counted) mutable {
      time(point.gather, counted, [&] { group->gather(t); });
      time(point.sum, counted, [&] { group->sum(t); });
      t.fill_(1);
    });
  }
  interleave(work, session, session.repeats, /*warm_up=*/true, "exchanges");
  out.link = fit_link(out.points, out.ranks);
  return out;
}

}  // namespace orthobatch::bench
