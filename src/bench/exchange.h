#pragma once
// What processes that train together spend on exchanging tensors: times of the collectives, and the
// two constants they are made of.

#include <cstdint>
#include <vector>

#include "bench/timing.h"
#include "ranks/ranks.h"

namespace orthobatch::bench {

/// A round of a collective takes latency + bytes / rate seconds. Rings: a gather of n bytes from
/// each of K ranks has K − 1 rounds of n bytes, a sum 2 (K − 1) rounds of n / K.
struct Link {
  double latency = 0;  ///< seconds
  double rate = 0;     ///< bytes a second

  double gather(double bytes, int64_t ranks) const;
  double sum(double bytes, int64_t ranks) const;
};

struct ExchangePoint {
  int64_t bytes;
  Times gather, sum;
};

struct Exchanges {
  int64_t ranks = 1;
  std::vector<ExchangePoint> points;
  Link link;  ///< nearest to all of them, in relative error
};

/// Every rank calls it.
Exchanges measure_exchanges(ranks::Ranks& ranks, const Session& session);

/// From medians; two points or more.
Link fit_link(const std::vector<ExchangePoint>& points, int64_t ranks);

}  // namespace orthobatch::bench
