#pragma once
// The training loop: epochs of steps, an evaluation after each, the schedule, metrics, checkpoints.

#include <atomic>
#include <memory>
#include <string>

#include "data/batches.h"
#include "data/catalogue.h"
#include "ranks/ranks.h"
#include "run/config.h"
#include "train/evaluate.h"
#include "train/events.h"
#include "train/gradient_sum.h"
#include "train/progress.h"
#include "train/resume.h"

namespace orthobatch::train {

/// A training that left the finite numbers; the run's metrics say so too.
struct Diverged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Trainer {
 public:
  /// What is referred to must outlive it; `stop` is looked at after every step. Of several ranks
  /// the leader has the folder, and no other.
  Trainer(const run::TrainConfig& config, const data::DataSet& data, const RunFolder* folder,
          Progress& progress, const std::atomic<bool>& stop,
          ranks::Ranks& ranks = ranks::this_process());

  /// A run from its beginning: weights from the seed, config.json, a first checkpoint.
  void begin();
  /// A run from where its checkpoint left it, with its net.
  void resume(Resumption run);

  /// On every rank but the leader, whatever that one does: from where it stands.
  void follow();

  enum class Outcome { finished, stopped };
  /// Trains up to the config's last epoch, or to where its rules stop it. Stopped: the state after
  /// the last step is in `last`.
  Outcome run();
  /// Why a run that finished did so before the config's last epoch; empty: it did not.
  const std::string& stopped_early() const { return stopped_early_; }

  const TrainState& state() const { return state_; }

 private:
  void take_net(DigitNet net);
  void join_ranks();
  std::vector<torch::Tensor> net_tensors() const;
  bool stops() const;
  bool train_epoch();
  void train_step(const data::Batch& batch);
  torch::Tensor images_tensor(const data::Batch& batch) const;
  bool finish_epoch();
  void refresh();
  void apply(const run::StepSettings& settings);
  /// metrics.jsonl and `last`, and `best` where this epoch is the best.
  void save(bool best = false);
  void write_metrics() const;
  void report_progress();
  std::string way_on(const io::FileError& error) const;
  bool blown_up() const;
  template <typename Part>
  void or_diverge(const Part& part);
  [[noreturn]] void diverge(const std::string& what);
  int64_t batch_now() const;
  /// Of the epoch under way, as it was made: a batch cannot have more images than there are.
  int64_t batch_of(const TrainState& state) const;

  run::TrainConfig config_;
  const data::DataSet& data_;
  const RunFolder* const folder_;
  Progress& progress_;
  const std::atomic<bool>& stop_;
  ranks::Ranks& ranks_;

  std::string config_text_;
  DigitNet net_{nullptr};
  std::unique_ptr<torch::optim::SGD> optimizer_;
  std::unique_ptr<GradientSum> gradients_;  ///< of several ranks
  bool all_stop_ = false;                   ///< as the ranks agreed in the last step
  double exchange_percent_ = 0;             ///< of the epoch's time in this process
  Schedule schedule_;
  TrainState state_;
  std::string metrics_;                   ///< the lines of metrics.jsonl, …
  std::vector<run::EpochRecord> epochs_;  ///< … and what they say, as the leader knows it
  std::string stopped_early_;
  data::BatchLoader loader_;
  std::unique_ptr<EventWriter> events_;
};

/// What config.json records of the data a run was started with.
nlohmann::ordered_json describe_data(const data::DataSet& data);
/// Throws std::invalid_argument where `data` is not what the run was started with.
void require_same_data(const nlohmann::json& described, const data::DataSet& data,
                       const std::string& name);

}  // namespace orthobatch::train
