#pragma once
// Training batches, shuffled and augmented ahead of their use by background threads.

#include <condition_variable>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/share.h"
#include "data/augment.h"

namespace orthobatch::data {

struct Batch {
  std::vector<float> images;    ///< count × height × width × channels
  std::vector<int64_t> labels;  ///< count
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

/// The order in which an epoch takes the images: a permutation of 0 … count − 1, the same for the
/// same seed and epoch.
std::vector<uint32_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch);

/// An image becomes what an Augmenter makes of it, whichever thread does it: the batches are the
/// same for any number of threads.
class BatchLoader {
 public:
  /// `images` must outlive the loader. Only one's own share of each batch is made.
  BatchLoader(const ImageSet& images, const InputScale& scale, const Augmentation& augmentation,
              uint64_t seed, int threads, base::Share share = {});
  ~BatchLoader();

  /// Starts making the batches of an epoch, from number `first` on; what was left of another epoch
  /// is dropped. Images beyond the last whole batch sit this epoch out.
  void start(int64_t epoch, int64_t batch, int64_t first = 0);

  /// Batches in the epoch that was started.
  int64_t steps() const { return steps_; }

  /// The next batch; waits for it where it must.
  std::shared_ptr<Batch> next();

  /// Seconds that `next` has waited since `start`.
  double waited() const { return waited_; }

 private:
  void work();
  void fill(Batch& batch, int64_t number, Augmenter& augment) const;

  const ImageSet& images_;
  const InputScale scale_;
  const Augmentation augmentation_;
  const uint64_t seed_;
  const base::Share share_;

  // Set by start() while no thread is working on a batch.
  std::vector<uint32_t> order_;
  int64_t epoch_ = 0, batch_ = 0, steps_ = 0;

  std::mutex mutex_;
  std::condition_variable ready_, room_;
  std::map<int64_t, std::shared_ptr<Batch>> made_;  ///< by number
  int64_t claimed_ = 0, taken_ = 0;                 ///< the next to make, the next to hand out
  int working_ = 0;
  bool stop_ = false;
  std::exception_ptr failure_;  ///< of a background thread, thrown by next()
  double waited_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace orthobatch::data
