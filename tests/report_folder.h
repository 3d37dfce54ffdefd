#pragma once
// Run folders as reproduce leaves them, with made-up metrics.

#include <string>

#include "experiment/results.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "rooms.h"
#include "run/names.h"

namespace orthobatch {

inline EpochRecord epoch(int number, double test_error, double seconds = 2) {
  EpochRecord e;
  e.epoch = number;
  e.settings = {0.125, 0.9, 0.9, 256};
  e.train_loss = 0.5;
  e.train_error_percent = test_error + 1;
  e.test = {test_error, test_error / 10};
  LayerRecord layer;
  layer.name = "block1.norm";
  layer.spec = "BN";
  layer.channels = 8;
  layer.condition_number = 3;
  layer.effective_rank = 7.5;
  e.layers = {layer};
  e.time.train_seconds = seconds;
  return e;
}

inline std::string text_of(const EpochRecord& e) { return to_json(e).dump() + "\n"; }

inline std::string line(int number, double test_error, double seconds = 2) {
  return text_of(epoch(number, test_error, seconds));
}

/// A line of metrics with another value of a member.
inline std::string with(const std::string& line, const char* member, const nlohmann::json& value) {
  nlohmann::ordered_json record = nlohmann::ordered_json::parse(line);
  record[member] = value;
  return record.dump() + "\n";
}

inline std::string three(double test_error) {
  return line(1, test_error) + line(2, test_error) + line(3, test_error);
}

inline std::string diverged_line(int number) {
  EpochRecord e = epoch(number, 0);
  e.diverged = "loss nan";
  return text_of(e);
}

/// A folder as reproduce leaves one.
class Folder {
 public:
  explicit Folder(const std::string& rows) {
    experiment_ = experiment_from_json(
        parse_json("{\"data\": \"synthetic\", \"epochs\": 3, \"rows\": " + rows + "}", "t"), "t",
        "t");
    write_file(folder_.path(std::string("t") + experiment_suffix), to_json(experiment_).dump());
  }
  std::string path() const { return folder_.path(); }
  std::string run(size_t row, uint64_t seed = 1) const {
    return run_folder_path(folder_.path(), experiment_.rows[row], seed);
  }
  /// `epochs` as the run's own settings have them; 0: as the experiment says.
  void write(size_t row, const std::string& metrics, uint64_t seed = 1, int64_t epochs = 0) {
    make_directories(run(row, seed));
    TrainConfig config = experiment_.rows[row].config;
    if (epochs > 0) config.epochs = epochs;
    config.seed = seed;
    config.threads = 1;
    write_file(join_path(run(row, seed), config_name), to_json(config).dump());
    write_file(join_path(run(row, seed), metrics_name), metrics);
  }
  ExperimentResult read() const { return read_results({folder_.path()}).at(0); }

 private:
  TemporaryFolder folder_;
  Experiment experiment_;
};

}  // namespace orthobatch
