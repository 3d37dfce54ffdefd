#pragma once

#include <cstdint>

namespace orthobatch::base {

/// The part of many things that is one's own of several hands: of `count` those from first(count)
/// up to last(count).
struct Share {
  int hand = 0, hands = 1;
  int64_t first(int64_t count) const { return count * hand / hands; }
  int64_t last(int64_t count) const { return count * (hand + 1) / hands; }
  int64_t size(int64_t count) const { return last(count) - first(count); }
};

}  // namespace orthobatch::base
