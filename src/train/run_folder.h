#pragma once

#include <string>

#include "io/file.h"
#include "run/config.h"
#include "train/checkpoint.h"

namespace orthobatch {

struct RunInUse : FileError {
  explicit RunInUse(const std::string& path)
      : FileError(path, "another process is training in this folder") {}
};

/// The folder of a run: config.json, metrics.jsonl, last.pt, previous.pt, best.pt, event files. One
/// process at a time.
class RunFolder {
 public:
  /// Creates the folder, or opens it; throws RunInUse while another process has it.
  explicit RunFolder(const std::string& path);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string config() const { return in("config.json"); }
  std::string metrics() const { return in("metrics.jsonl"); }
  std::string last() const { return in("last.pt"); }
  std::string previous() const { return in("previous.pt"); }
  std::string best() const { return in("best.pt"); }

  /// Writes last.pt; the one before stays as previous.pt.
  void save_last(const std::string& config, const TrainState& state, DigitNet& net,
                 const torch::optim::SGD& optimizer) const;
  /// metrics.jsonl, as the state has it.
  void write_metrics(const TrainState& state) const;

 private:
  void remove_leftovers() const;
  std::string in(const char* name) const;

  std::string path_;
  int lock_ = -1;
};

}  // namespace orthobatch
