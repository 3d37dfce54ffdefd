#pragma once
// Random numbers that are a function of what they are for, not of who asked before.

#include <cstdint>

namespace orthobatch::data {

/// SplitMix64: one 64-bit state, passes the usual tests, seeds well from any number.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  /// A stream of its own for each combination, as (seed, epoch, index).
  Random(uint64_t a, uint64_t b, uint64_t c) : state_(mix(mix(mix(a) + b) + c)) {}

  uint64_t bits() { return mix(state_ += 0x9e3779b97f4a7c15u); }
  /// 0 ≤ x < 1
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// 0 ≤ i < n, by rejection: every value is equally likely.
  uint64_t below(uint64_t n) {
    const uint64_t reject_under = -n % n;
    while (true) {
      const uint64_t x = bits();
      if (x >= reject_under) return x % n;
    }
  }

 private:
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace orthobatch::data
