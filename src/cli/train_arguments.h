#pragma once
// The command line of `orthobatch train`, and the configs it comes to.

#include <optional>
#include <string>
#include <vector>

#include "cli/processes.h"
#include "run/config.h"
#include "run/settings.h"

namespace orthobatch::cli {

struct TrainArguments {
  std::string data, config, out, resume, data_dir, image_size;
  std::vector<std::string> layers, settings;
  std::optional<int64_t> epochs, subset, batch;
  std::optional<uint64_t> seed;
  std::optional<double> learning_rate, momentum, target_error;
  std::optional<int64_t> patience;
  std::string head, padding;
  std::optional<int> threads, augment_threads;
  bool quiet = false, dry_run = false, strict = false, follow_links = false;
  ProcessOptions ranks;
};

/// The settings of --set.
std::vector<run::Setting> settings_of(const TrainArguments& a);

/// The config of a new run.
run::TrainConfig config_of(const TrainArguments& a);

/// What the command line changes in a run that goes on.
std::vector<run::Setting> changes_of(const TrainArguments& a, int processes);

/// The config that a run would go on with. Its checkpoints are looked at by who trains.
run::TrainConfig config_of_old(const TrainArguments& a, int processes);

}  // namespace orthobatch::cli
