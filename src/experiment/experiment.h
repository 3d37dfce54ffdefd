#pragma once
// An experiment: rows of nets to train, with the paper's result for each, and the figures to draw
// of them. Read from JSON; docs/experiments.md has the members.

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run/config.h"

namespace orthobatch::experiment {

/// What the paper reports for a row; each member is empty where it reports none.
struct PaperResult {
  std::optional<double> error_percent;  ///< least test error
  std::optional<double> loss;           ///< test loss, as the paper counts it
  std::optional<int64_t> epoch;         ///< of the least test error
};

struct ExperimentRow {
  std::string name;         ///< the layer spec, unless the file gives another
  run::TrainConfig config;  ///< its seed is not used; threads are 0: as many as the machine has
  std::vector<uint64_t> seeds;
  PaperResult paper;
  std::string note;
};

struct ExperimentFigure {
  std::string title;
  std::vector<std::string> rows;  ///< patterns, see row_matches
  int64_t best = 0;               ///< in place of patterns: so many rows with the least error
};

/// What a claim is about; all are better when lower.
enum class ClaimFigure {
  best_error,   ///< least test error
  first_error,  ///< test error after the first epoch
  train_loss,   ///< mean training loss of the last epoch
  /// epochs until the least test error of a pair's second row, which the paper's table of MNIST
  /// has for BN's; of the second row itself the epoch of that error
  epochs_to_best
};
std::string to_string(ClaimFigure figure);

/// A sentence of the paper that rows can speak to: in every pair the first row has the lower
/// figure; or, with `within`, the two are no further apart than that.
struct ExperimentClaim {
  std::string text;
  ClaimFigure figure = ClaimFigure::best_error;
  double within = 0;
  std::vector<std::pair<std::string, std::string>> pairs;  ///< names of rows
};

struct Experiment {
  std::string name;  ///< the file's, without folder and ".json"
  std::string title;
  std::string about;      ///< lines for the reader
  double loss_share = 1;  ///< the paper's loss is cross-entropy divided by this
  bool pictures = true;   ///< whether its report shows feature maps and filters
  /// Above 0: its report shows error against training images, with lines up to so many.
  int64_t trend_to = 0;
  std::vector<ExperimentRow> rows;
  std::vector<ExperimentFigure> figures;
  std::vector<ExperimentClaim> claims;
};

/// A whole name, or one without its arguments, as a shell pattern: "ZCA*", "LDL", "*->W".
bool row_matches(const std::string& pattern, const std::string& row);

/// The folder of one run under the experiment's.
std::string run_folder_path(const std::string& out, const ExperimentRow& row, uint64_t seed);

/// Throws std::invalid_argument "SOURCE: PLACE: expected …, found …".
Experiment experiment_from_json(const nlohmann::json& json, const std::string& name,
                                const std::string& source);

/// One of the program's own by name, or a file.
Experiment find_experiment(const std::string& name_or_path);
std::vector<std::string> experiment_names();

/// What the command line may change.
struct ExperimentChanges {
  std::optional<int64_t> epochs, subset;
  std::optional<int64_t> seeds;   ///< 1 … so many, for every row
  std::vector<std::string> rows;  ///< patterns; empty: all
  std::string head, padding;      ///< of every net; empty: the row's own
};
void apply(const ExperimentChanges& changes, Experiment& experiment);

/// All of it; experiment_from_json gives it back.
nlohmann::ordered_json to_json(const Experiment& experiment);

}  // namespace orthobatch::experiment
