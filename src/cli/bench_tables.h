#pragma once
// What a run of `orthobatch bench` prints.

#include <string>
#include <vector>

#include "bench/bars.h"

namespace orthobatch::cli {

std::string layer_table(const bench::LayerResult& result);
/// Each layer's geometric means over the shapes, by layout.
std::string mean_table(const std::vector<bench::LayerResult>& results);
std::string memory_table(const std::vector<bench::MemoryResult>& results);
std::string step_table(const bench::StepResult& result);
std::string inference_table(const bench::InferenceResult& result);
std::string scaling_table(const bench::ScalingSeries& series);
std::string bar_table(const std::vector<bench::Bar>& bars);

}  // namespace orthobatch::cli
