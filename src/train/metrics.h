#pragma once
// The lines of metrics.jsonl.

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

#include "orthobatch/diagnostics.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

namespace orthobatch {

/// Condition number, effective rank, floored and null directions of each layer's last batch. An
/// infinite number is null: JSON has no other way.
nlohmann::ordered_json layers_json(const std::vector<LayerSummary>& layers,
                                   const std::vector<int64_t>& exchanges);

/// One line: what the epoch under way in `state` came to. All that depends on the clock is in its
/// member "time".
nlohmann::ordered_json epoch_record(const TrainState& state, const Evaluation& test,
                                    double test_seconds, const Decision& decision);

/// The line of an epoch that did not end.
nlohmann::ordered_json diverged_record(const TrainState& state, const std::string& reason);

/// The numbers of a record for TensorBoard, "loss/train" and so on.
std::vector<std::pair<std::string, double>> scalars_of(const nlohmann::ordered_json& record);

/// For a person, in one line.
std::string epoch_text(const nlohmann::ordered_json& record, int64_t epochs, bool best);

}  // namespace orthobatch
