#pragma once
// What the trainer records of an epoch, and what it says of it.

#include <string>
#include <utility>
#include <vector>

#include "orthobatch/diagnostics.h"
#include "run/epoch_record.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

namespace orthobatch::train {

/// Each layer's last batch; `exchanges` of pivots in all steps of the epoch, by layer.
std::vector<run::LayerRecord> layer_records(const std::vector<LayerSummary>& layers,
                                            const std::vector<int64_t>& exchanges);

/// What the epoch under way in `state` came to.
run::EpochRecord epoch_record(const TrainState& state, const Evaluation& test, double test_seconds,
                              const run::Decision& decision);

/// The same of an epoch that did not end.
run::EpochRecord diverged_record(const TrainState& state, const std::string& reason);

/// The numbers of a record for TensorBoard, "loss/train" and so on.
std::vector<std::pair<std::string, double>> scalars_of(const run::EpochRecord& record);

/// For a person, in one line.
std::string epoch_text(const run::EpochRecord& record, int64_t epochs, bool best);

}  // namespace orthobatch::train
