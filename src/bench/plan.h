#pragma once
// What a step would take on so many ranks: a model, made of what was measured on few.

#include <string>
#include <vector>

#include "bench/exchange.h"
#include "bench/timing.h"

namespace orthobatch::bench {

/// What a net exchanges in a step, and what one rank computes.
struct NetLoad {
  std::string name;
  int64_t batch = 0;       ///< images of a step on all ranks; 0: of each rank's own, see below
  int64_t batch_each = 0;  ///< images of a rank where the batch grows with the ranks
  std::vector<double> forward, backward;  ///< bytes of each layer's statistics and sums
  double gradients = 0;                   ///< bytes
  double seconds_image = 0;               ///< of a rank's step, for each of its images,
  double seconds_fixed = 0;               ///< and besides: what is the same for any number
  int64_t statistics_ranks = 0;           ///< that share statistics, in groups; 0: all

  /// Of `ranks`, in seconds.
  double compute(int64_t ranks) const;
  double exchange(int64_t ranks, const Link& link) const;
  double step(int64_t ranks, const Link& link) const {
    return compute(ranks) + exchange(ranks, link);
  }
  /// Images a second over those of one rank.
  double speed_up(int64_t ranks, const Link& link) const;
  /// Rounds and bytes that a rank sends in a step.
  int64_t rounds(int64_t ranks) const;
  double bytes(int64_t ranks) const;

 private:
  int64_t sharing(int64_t ranks) const;
};

constexpr int64_t most_planned_ranks = 1024;
/// Up to how many ranks, by powers of two, twice as many bring a quarter more images a second.
int64_t paying_ranks(const NetLoad& net, const Link& link);

/// The paper's net, with this layer in each block, its step timed on this rank while all do the
/// same. `small`: a moment only.
NetLoad measure_paper_net(const std::string& data, const std::string& layer, const Session& session,
                          bool small);
/// The same step over the ranks, milliseconds.
Times measure_step_over(const std::string& data, const std::string& layer, ranks::Ranks& ranks,
                        const Session& session, bool small);

/// ResNet-50 with groups of so many channels, 32 images of 224×224 a rank. Its time is that of its
/// multiplications at the rate of a 3×3 convolution in the middle of it, which is measured.
NetLoad estimate_resnet50(int64_t group_size, const Session& session, bool small);

}  // namespace orthobatch::bench
