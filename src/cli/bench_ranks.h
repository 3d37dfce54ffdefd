#pragma once

#include <string>

#include "bench/timing.h"

namespace orthobatch::ranks {
class Ranks;
}

namespace orthobatch::cli {

/// What processes that train together exchange, and what that comes to on more of them; the leader
/// prints it, and writes it to `json` where that is not empty.
void bench_ranks(ranks::Ranks& ranks, const bench::Session& session, const std::string& json,
                 bool small);

}  // namespace orthobatch::cli
