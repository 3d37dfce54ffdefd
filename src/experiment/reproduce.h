#pragma once
// Trains the rows of an experiment one after another, in a folder that holds:
//
//   NAME.experiment.json   the experiment as it was run, and what it was run with
//   runs/DATA-ROW-seedN/   a run, with pictures.json of its best epoch; failed.txt where it failed

#include <atomic>
#include <string>
#include <vector>

#include "data/catalogue.h"
#include "experiment/experiment.h"
#include "ranks/ranks.h"
#include "run/settings.h"
#include "train/progress.h"

namespace orthobatch::train {
class RunFolder;
}

namespace orthobatch::experiment {

struct ReproduceOptions {
  std::string out, data_dir;
  int threads = 0;  ///< 0: as many as the machine has for each process
  int processes_here = 1;
  std::string command;  ///< what the report says to repeat it with
};

class Reproduction {
 public:
  /// `all` has the same settings as `experiment`, and the rows that were not chosen.
  Reproduction(const Experiment& experiment, const Experiment& all, const ReproduceOptions& options,
               train::Progress& progress, const std::atomic<bool>& stop,
               ranks::Ranks& ranks = ranks::this_process());

  struct Outcome {
    bool stopped = false;
    int64_t trained = 0, found_done = 0;
    std::vector<std::string> diverged, failed;  ///< "ROW, seed 1: why"
  };
  /// Looks at what the folder holds, and loads the data. Throws std::invalid_argument where the
  /// folder holds runs with other settings.
  void open();
  /// How many runs there are to train, and about how long that takes: by the epochs of runs in the
  /// folder, or a few steps measured now.
  std::string plan();
  /// Writes the experiment's description, before any training.
  void prepare();

  /// Seeds are the outer loop: a table is whole as early as can be. Runs that are done are left
  /// alone, others go on where they were; several processes on one folder share its runs.
  Outcome run();

  /// On every rank but the leader, in place of the two: has its part in the runs that one makes.
  void follow();

 private:
  struct Job {
    size_t number;  ///< from 1
    const ExperimentRow* row;
    uint64_t seed;
    std::string path;
    int64_t epochs_done = 0;
    bool diverged = false;
    bool stopped_early = false;  ///< by the rules of its row
    bool elsewhere = false;      ///< another process had it in hand when it was last tried
    bool settled = false;        ///< nothing more to do about it: done, diverged or failed
    std::string label() const { return row->name + ", seed " + std::to_string(seed); }
  };
  void list_jobs();
  /// Reads from its folder how far a run is.
  void look(Job& job) const;
  int64_t epochs_missing(const Job& job) const;
  void check_settings(const Job& job) const;
  void write_description() const;
  const data::DataSet& data_for(const run::TrainConfig& config);
  void announce(const Job& job);
  void make_all(Outcome& outcome);
  void make(Job& job, Outcome& outcome);
  /// False: stopped.
  bool train(const Job& job, const train::RunFolder& folder);
  void draw(const Job& job);
  run::TrainConfig config_of(const Job& job) const;

  Experiment experiment_, all_;
  ReproduceOptions options_;
  train::Progress& progress_;
  const std::atomic<bool>& stop_;
  ranks::Ranks& ranks_;
  data::DataSet data_;
  std::string data_loaded_;  ///< name and subset of data_
  std::vector<Job> jobs_;
  int64_t epochs_made_ = 0;  // of this process, for the time that is left
  double seconds_made_ = 0;
};

}  // namespace orthobatch::experiment
