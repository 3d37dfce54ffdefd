#pragma once
// A run as its folder tells it: config.json and metrics.jsonl, whatever state they are in.

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/epoch_record.h"

namespace orthobatch::run {

/// Where the longest epoch took more than so many times the shortest, other programs had a part in
/// it, and the times say nothing of the run.
constexpr double steady_ratio = 1.5;

struct RunRecord {
  std::string path;
  bool there = false;  ///< whether the folder is that of a run, or has a failed.txt
  std::string data, layers;
  std::string settings;  ///< all that decides its numbers but the seed, as JSON
  uint64_t seed = 0;
  StopRules stop;
  int64_t epochs_wanted = 0, train_images = 0, test_images = 0;
  int threads = 0, processes = 1;
  std::vector<EpochRecord> epochs;  ///< in order; those that could be read
  struct Divergence {
    int64_t epoch;
    std::string reason;
  };
  std::optional<Divergence> diverged;
  std::string failed;                 ///< of failed.txt
  std::string stopped_early;          ///< why it was over before its last epoch, where it was
  std::vector<std::string> problems;  ///< what is damaged or missing, one line each

  /// Null: none.
  const EpochRecord* best() const;
  const EpochRecord* last() const { return epochs.empty() ? nullptr : &epochs.back(); }
  /// Of training alone, the median of its epochs; of a run without epochs none.
  std::optional<double> seconds_per_epoch() const;
  /// Whether its times say something: see steady_ratio.
  bool steady() const;
  /// Whether it has nothing more to train.
  bool finished() const {
    return !stopped_early.empty() || (last() && last()->epoch >= epochs_wanted);
  }
};

/// Whether a folder is that of a run: it has a config.json or metrics.jsonl, damaged or not.
bool is_run(const std::string& folder);

/// Never throws for what is in the files: a damaged line is a problem, and the rest is there.
RunRecord read_run(const std::string& path);

/// What is said of a file that is not there.
std::string missing_problem(const std::string& name);

/// pictures.json; null where there is none or it is damaged, which becomes a problem of the run.
nlohmann::json read_pictures(const std::string& path, std::vector<std::string>& problems);

}  // namespace orthobatch::run
