#pragma once

#include <cstdint>
#include <functional>

namespace orthobatch::data {

/// How far something is: so many of so many.
using Progressed = std::function<void(int64_t done, int64_t all)>;

/// Calls work(i) for each i from 0 to count − 1, on so many threads, this one among them; it calls
/// `progressed` now and then. The first exception ends the rest and is thrown here.
void for_each_index(int64_t count, int threads, const std::function<void(int64_t)>& work,
                    const Progressed& progressed = {});

}  // namespace orthobatch::data
