#pragma once
// What runs and their files are called.
//
//   NAME.experiment.json   an experiment as reproduce ran it, and what it was run with
//   runs/DATA-ROW-seedN/   the folder of a run, with the files below

#include <cstdint>
#include <string>

namespace orthobatch::run {

constexpr const char* experiment_suffix = ".experiment.json";
constexpr const char* runs_name = "runs";

constexpr const char* config_name = "config.json";     ///< its settings, and the data it found
constexpr const char* metrics_name = "metrics.jsonl";  ///< a line an epoch
constexpr const char* last_name = "last.safetensors";  ///< checkpoints: where it stands,
constexpr const char* previous_name = "previous.safetensors";  ///< the one before,
constexpr const char* best_name = "best.safetensors";          ///< and its best epoch
constexpr const char* next_name = "next.safetensors";          ///< `last` while it is being written
constexpr const char* pictures_name = "pictures.json";         ///< of the best epoch's net
constexpr const char* failed_name = "failed.txt";              ///< why it failed, where it did
constexpr const char* confusion_name = "confusion.png";
constexpr const char* lock_name = ".lock";  ///< held by the process that trains it
constexpr const char* events_prefix = "events.out.tfevents.";  ///< as TensorBoard looks for them

/// The name of a run's folder: "mnist-ZCAE_1e-7-seed1". Letters, digits, "-", "." and all that
/// is not ASCII stay as they are in the row's name. Of a folder of one's own the last name counts.
std::string run_name(const std::string& data, const std::string& row, uint64_t seed);

}  // namespace orthobatch::run
