#pragma once

#include <string>
#include <vector>

#include "io/file.h"
#include "run/config.h"
#include "run/names.h"
#include "train/checkpoint.h"

namespace orthobatch::train {

struct RunInUse : io::FileError {
  explicit RunInUse(const std::string& path)
      : io::FileError(path, "another process is training in this folder") {}
};

/// Whether a name is taken, be it by a folder, a device or a link that leads nowhere.
bool name_taken(const std::string& path);

/// The folder of a run: config.json, metrics.jsonl, the checkpoints last, previous and best, event
/// files. One process at a time.
class RunFolder {
 public:
  /// Creates the folder, or opens it; throws RunInUse while another process has it.
  explicit RunFolder(const std::string& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string config() const { return in(run::config_name); }
  std::string metrics() const { return in(run::metrics_name); }
  std::string last() const { return in(run::last_name); }
  std::string previous() const { return in(run::previous_name); }
  std::string best() const { return in(run::best_name); }
  /// What a run may go on from and is there, newest first.
  std::vector<std::string> checkpoints() const;

  /// Writes `last`, of which the one before stays as `previous`, or `best`.
  void save(const std::string& path, const std::string& config, const TrainState& state,
            const DigitNet& net, const torch::optim::SGD& optimizer) const;
  /// Whether a run was begun in it.
  bool has_run() const { return name_taken(config()) || !checkpoints().empty(); }

 private:
  bool lock() const;
  void remove_leftovers() const;
  std::string in(const char* name) const;

  std::string path_;
  int lock_ = -1;
};

}  // namespace orthobatch::train
