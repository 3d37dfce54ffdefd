#pragma once
// An epoch of a run: a line of metrics.jsonl.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/config.h"

namespace orthobatch::run {

/// More than that, read from a file, is a mistake.
constexpr int64_t most_images = 1'000'000'000'000;

/// What a training step uses.
struct StepSettings {
  double learning_rate = 0, momentum = 0, alpha = 0;
  int64_t batch = 0;
};

/// What was decided after an epoch, and why.
struct Decision {
  bool slow = false;   ///< whether learning slowed
  std::string action;  ///< "batch 256 -> 512, learning rate 0.125 -> 0.09375"; "none"
  std::string reason;  ///< the numbers compared
};

/// A layer's last batch of the epoch.
struct LayerRecord {
  std::string name;  ///< path in the net
  std::string spec;
  int64_t channels = 0;
  std::optional<double> condition_number, effective_rank;  ///< empty: not finite
  int64_t floored = 0, null = 0;
  int64_t exchanges = 0;  ///< of pivots, in the whole epoch
};

/// What the net of an epoch makes of the test set.
struct TestResult {
  double error_percent = 0;
  std::optional<double> loss;  ///< mean cross-entropy; empty: not finite
};

/// Which epoch is a run's best: the one with the least test error, then loss; the paper's way, on
/// the test set.
bool better(const TestResult& a, const TestResult& b);

/// All that depends on the clock.
struct EpochTime {
  std::string finished;  ///< "2026-01-31T12:00:00Z"
  double train_seconds = 0, test_seconds = 0, images_per_second = 0;
  double waited_seconds = 0, waited_percent = 0;  ///< for batches, of train_seconds
  std::optional<double> exchange_percent;  ///< of train_seconds, between ranks; empty: one process
};

struct EpochRecord {
  int64_t epoch = 0;  ///< from 1
  int64_t steps = 0, images = 0;
  StepSettings settings;  ///< that its steps used
  /// Why the epoch did not end; empty: it did. What follows is known only of one that did, save
  /// time.finished and time.train_seconds.
  std::optional<std::string> diverged;
  double train_loss = 0, train_error_percent = 0;
  int64_t curve_every = 0;    ///< steps between the points of `curve`
  std::vector<double> curve;  ///< training loss inside the epoch
  TestResult test;
  Decision decision;
  std::vector<LayerRecord> layers;
  EpochTime time;
};

/// A line of metrics.jsonl; epoch_from_json gives it back.
nlohmann::ordered_json to_json(const EpochRecord& epoch);

/// Throws std::invalid_argument that names the member at fault. Members that no reader needs may be
/// absent.
EpochRecord epoch_from_json(const nlohmann::json& line);

/// Why a run that has made these epochs is over; empty: it is not.
std::string stop_reason(const StopRules& rules, const std::vector<EpochRecord>& epochs);

// Tables that a line and the state in a checkpoint share.

template <typename Step, typename Fields>
void step_members(Step& s, Fields& f) {
  f.number("learning_rate", s.learning_rate, {0});
  f.integer("batch", s.batch, {0, largest_batch});
  f.number("momentum", s.momentum, {0, 1});
  f.number("alpha", s.alpha, {0, 1});
}

template <typename Layers, typename Fields>
void layer_list(Layers& layers, Fields& f) {
  f.list("layers", layers, LayerRecord(), [](auto& layer, auto& g) {
    constexpr double most_channels = 1e6;
    g.text("name", layer.name);
    g.text("spec", layer.spec);
    g.integer("channels", layer.channels, {1, most_channels});
    g.nullable("condition_number", layer.condition_number, {0});
    g.nullable("effective_rank", layer.effective_rank, {0});
    g.integer("floored", layer.floored, {0, most_channels});
    g.integer("null", layer.null, {0, most_channels});
    g.integer("exchanges", layer.exchanges);
    if constexpr (std::decay_t<decltype(g)>::reads) g.require({"channels", "floored", "null"});
  });
}

}  // namespace orthobatch::run
