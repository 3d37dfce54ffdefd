#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "bench/bars.h"

namespace orthobatch::bench {

/// Programs running or waiting for a core, on average over the last minute.
double load_average();

/// Machine, versions, and every number of a run. Times are milliseconds; `load` is the load average
/// before it began.
nlohmann::ordered_json to_json(const Results& results, const Session& session, double load,
                               const std::vector<Bar>& bars);

}  // namespace orthobatch::bench
