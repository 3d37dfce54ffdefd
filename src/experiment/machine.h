#pragma once

#include <nlohmann/json.hpp>

namespace orthobatch {

/// What a run was made with, for the reader of a report: version, libtorch, compiler, system,
/// processor, memory.
nlohmann::ordered_json describe_machine();

}  // namespace orthobatch
