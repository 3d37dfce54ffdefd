#pragma once
// What processes that train together spend on exchanging tensors, and a model of what a step would
// take on more of them (docs/distributed.md).

#include <cstdint>
#include <string>
#include <vector>

#include "bench/runner.h"
#include "ranks/ranks.h"

namespace orthobatch::bench {

/// A round of a collective takes latency + bytes / rate seconds. Rings: a gather of n bytes from
/// each of K ranks has K − 1 rounds of n bytes, a sum 2 (K − 1) rounds of n / K.
struct Link {
  double latency = 0;  ///< seconds
  double rate = 0;     ///< bytes a second

  /// Seconds of `count` collectives with `bytes` in all.
  double gather(double bytes, int64_t ranks, int64_t count = 1) const;
  double sum(double bytes, int64_t ranks, int64_t count = 1) const;
};

/// What a net exchanges in a step, and what one rank computes.
struct NetLoad {
  std::string name;
  int64_t images = 0;    ///< of a step
  bool on_each = false;  ///< on each rank, else on all together
  int64_t layers = 0;
  double forward = 0, backward = 0, gradients = 0;  ///< bytes of statistics, sums and gradients
  double seconds_image = 0;                         ///< of computing, for each image of a rank,
  double seconds_fixed = 0;                         ///< and what is the same for any number
  int64_t statistics_ranks = 0;                     ///< that share statistics, in groups; 0: all

  /// Adds a layer that whitens in blocks.
  void add_layer(int64_t channels, int64_t block);
  double step(int64_t ranks, const Link& link) const;  ///< seconds
  /// Images a second over those of one rank.
  double speed_up(int64_t ranks, const Link& link) const;
};

struct Exchanges {
  int64_t ranks = 1;
  Table collectives;  ///< a row's name begins with a number of bytes
  Link link;          ///< fitted to it
  Table steps;        ///< of the paper's nets, alone and over the ranks
  std::vector<NetLoad> nets;
};

/// Every rank calls it. `quick`: few images.
Exchanges measure_exchanges(ranks::Ranks& ranks, const Session& session, bool quick);

/// Least squares of relative errors, of two rows or more.
Link fit_link(const Table& collectives, int64_t ranks);

}  // namespace orthobatch::bench
