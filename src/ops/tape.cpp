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

core::Vector packed(const core::Statistics& statistics) {
  const core::Vector& covariance = statistics.covariance.values();
  core::Vector out;
  out.reserve(1 + statistics.mean.size() + covariance.size());
  out.push_back(statistics.samples);
  out.insert(out.end(), statistics.mean.begin(), statistics.mean.end());
  out.insert(out.end(), covariance.begin(), covariance.end());
  return out;
}

core::Statistics unpacked(const Tensor& tape, const Layer& layer) {
  TORCH_CHECK(tape.scalar_type() == at::kDouble && tape.numel() == tape_size(layer),
              to_string(layer.spec), ": expected the tape of a forward pass, ", tape_size(layer),
              " doubles, got ", tape.numel(), " values of type ", tape.scalar_type());
  const Tensor dense = tape.cpu().contiguous();
  const double* values = dense.data_ptr<double>();
  core::Statistics out;
  out.samples = *values++;
  out.mean.assign(values, values + layer.channels);
  out.covariance = core::BlockMatrix(layer.channels, layer.algebra->block());
  core::Vector& blocks = out.covariance.values();
  std::copy_n(values + layer.channels, blocks.size(), blocks.begin());
  return out;
}

Tensor record(const core::Statistics& statistics, nn::LayerCall made) {
  auto* values = new core::Vector(packed(statistics));
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
  if (auto made = tapes().find(tape.data_ptr()); made && tape.numel() == tape_size(call.layer()))
    return made;
  core::Statistics statistics = unpacked(tape, call.layer());
  ++copies;
  return std::make_shared<const nn::LayerCall>(
      nn::call_on_statistics(call.callee(), std::move(statistics), real, {sample_stride}));
}

int64_t replays_from_copies() { return copies; }

}  // namespace orthobatch::ops
