#pragma once
// Run folders as reproduce leaves them, with made-up metrics.

#include <string>

#include "experiment/reproduce.h"
#include "io/file.h"
#include "io/temporary_folder.h"
#include "report/results.h"

namespace orthobatch {

inline std::string line(int epoch, double test_error, double seconds = 2) {
  const nlohmann::ordered_json layer = {
      {"name", "block1.norm"}, {"spec", "BN"}, {"channels", 8}, {"condition_number", 3},
      {"effective_rank", 7.5}, {"floored", 0}, {"null", 0}};
  const nlohmann::ordered_json record = {{"epoch", epoch},
                                         {"learning_rate", 0.125},
                                         {"batch", 256},
                                         {"train_loss", 0.5},
                                         {"train_error_percent", test_error + 1},
                                         {"test_loss", test_error / 10},
                                         {"test_error_percent", test_error},
                                         {"layers", {layer}},
                                         {"time", {{"train_seconds", seconds}}}};
  return record.dump() + "\n";
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

inline std::string diverged_line(int epoch) {
  return nlohmann::ordered_json{
             {"epoch", epoch}, {"diverged", "loss nan"}, {"time", {{"train_seconds", 1}}}}
             .dump() +
         "\n";
}

/// A folder as reproduce leaves one.
class Folder {
 public:
  explicit Folder(const std::string& rows) {
    experiment_ = experiment_from_json(
        parse_json("{\"data\": \"synthetic\", \"epochs\": 3, \"rows\": " + rows + "}", "t"), "t",
        "t");
    write_file(folder_.path("t.experiment.json"), to_json(experiment_).dump());
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
    write_file(join_path(run(row, seed), "config.json"), to_json(config).dump());
    write_file(join_path(run(row, seed), "metrics.jsonl"), metrics);
  }
  ExperimentResult read() const { return read_results({folder_.path()}).at(0); }

 private:
  TemporaryFolder folder_;
  Experiment experiment_;
};

}  // namespace orthobatch
