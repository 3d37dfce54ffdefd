#include "ops/tape.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

namespace orthobatch::ops {
namespace {

/// What was made of the tapes that live, by where their values are.
class Tapes {
 public:
  void add(const void* values, std::shared_ptr<const nn::LayerCall> made) {
    const std::lock_guard<std::mutex> lock(mutex_);
    made_[values] = std::move(made);
  }
  void remove(const void* values) {
    std::shared_ptr<const nn::LayerCall> last;  // freed outside the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = made_.find(values);
    if (found == made_.end()) return;
    last = std::move(found->second);
    made_.erase(found);
  }
  std::shared_ptr<const nn::LayerCall> find(const void* values) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = made_.find(values);
    return found == made_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<const nn::LayerCall>> made_;
};

Tapes& tapes() {
  static Tapes* const all = new Tapes;  // never destroyed: tensors may outlive main
  return *all;
}

std::atomic<int64_t> copies{0};

}  // namespace

int64_t tape_size(const Layer& layer) {
  const core::BlockMatrix blocks(layer.channels, layer.algebra->block());
  return 1 + layer.channels + static_cast<int64_t>(blocks.values().size());
}

Tensor record(const core::Statistics& statistics, nn::LayerCall made) {
  auto* values = new core::Vector;
  const core::Vector& covariance = statistics.covariance.values();
  values->reserve(1 + statistics.mean.size() + covariance.size());
  values->push_back(statistics.samples);
  values->insert(values->end(), statistics.mean.begin(), statistics.mean.end());
  values->insert(values->end(), covariance.begin(), covariance.end());
  double* const data = values->data();
  tapes().add(data, std::make_shared<const nn::LayerCall>(std::move(made)));
  return at::from_blob(
      data, {static_cast<int64_t>(values->size())},
      [values](void* at) {
        tapes().remove(at);
        delete values;
      },
      at::kDouble);
}

std::shared_ptr<const nn::LayerCall> replay(const Tensor& tape, const Call& call, core::Real real,
                                            int64_t sample_stride) {
  const Layer& layer = call.layer();
  TORCH_CHECK(tape.scalar_type() == at::kDouble && tape.numel() == tape_size(layer),
              call.callee().description(), ": expected the tape of a forward pass, ",
              tape_size(layer), " doubles, got ", tape.numel(), " values of type ",
              tape.scalar_type());
  if (auto made = tapes().find(tape.data_ptr())) return made;
  ++copies;
  const Tensor dense = tape.cpu().contiguous();
  const double* values = dense.data_ptr<double>();
  core::Statistics statistics;
  statistics.samples = *values++;
  statistics.mean.assign(values, values + layer.channels);
  statistics.covariance = core::BlockMatrix(layer.channels, layer.algebra->block());
  core::Vector& blocks = statistics.covariance.values();
  std::copy_n(values + layer.channels, blocks.size(), blocks.begin());
  return std::make_shared<const nn::LayerCall>(
      nn::call_on_statistics(call.callee(), std::move(statistics), real, {sample_stride}));
}

int64_t replays_from_copies() { return copies; }

}  // namespace orthobatch::ops
