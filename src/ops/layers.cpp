#include "ops/layers.h"

#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>

#include "core/cayley.h"

namespace orthobatch::ops {
namespace {

const char* type_name(int64_t dims) {
  TORCH_CHECK(dims >= 1 && dims <= 3, "expected a layer of 1, 2 or 3 dimensions, got ", dims);
  return dims == 1 ? "BatchOrtho1d" : dims == 2 ? "BatchOrtho2d" : "BatchOrtho3d";
}

uint64_t hash_of(uint64_t seed, const core::Vector& values) {
  for (const double value : values) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    seed = (seed ^ bits) * 0x9e3779b97f4a7c15u;
    seed ^= seed >> 29;
  }
  return seed ^ values.size();
}

/// Folds of averages, the least recently used forgotten first.
class Folds {
 public:
  std::shared_ptr<const core::Fold> find(const nn::Callee& callee, const nn::Average& average) {
    const core::LayerParameters& p = average.parameters;
    uint64_t hash = static_cast<uint64_t>(average.real) * 2 + average.transform;
    for (const core::Vector* v : {&average.mean, &average.statistic, &p.gamma, &p.bias, &p.skew})
      hash = hash_of(hash, *v);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (const auto found = places_.find(hash); found != places_.end()) {
        const auto entry = found->second;
        if (entry->algebra == callee.algebra && entry->average == average) {
          entries_.splice(entries_.begin(), entries_, entry);
          return entry->fold;
        }
      }
    }
    const std::shared_ptr<const core::Fold> fold = nn::fold_average(callee, average);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = places_.find(hash); found != places_.end()) forget(found->second);
    entries_.push_front({hash, callee.algebra, average, fold});
    places_[hash] = entries_.begin();
    values_ += size_of(entries_.front());
    while (values_ > limit && entries_.size() > 1) forget(std::prev(entries_.end()));
    return fold;
  }

 private:
  struct Entry {
    uint64_t hash;
    std::shared_ptr<const core::LayerAlgebra> algebra;
    nn::Average average;
    std::shared_ptr<const core::Fold> fold;
  };
  /// In doubles, roughly: the statistic, T, P and what the factor keeps.
  static size_t size_of(const Entry& entry) { return 8 * entry.average.statistic.size() + 512; }

  void forget(std::list<Entry>::iterator entry) {
    values_ -= size_of(*entry);
    places_.erase(entry->hash);
    entries_.erase(entry);
  }

  static constexpr size_t limit = size_t{1} << 26;  // doubles: half a gibibyte
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_map<uint64_t, std::list<Entry>::iterator> places_;
  size_t values_ = 0;
};

Folds& folds() {
  static Folds* const all = new Folds;  // never destroyed: threads may outlive main
  return *all;
}

}  // namespace

std::shared_ptr<const Layer> find_layer(const Named& named) {
  const auto& [spec, channels, dims, name] = named;
  static std::mutex* const mutex = new std::mutex;
  static auto* const layers = new std::unordered_map<std::string, std::shared_ptr<const Layer>>;
  constexpr size_t many = 4096;
  std::string key = std::to_string(channels) + " " + std::to_string(dims) + " ";
  key.append(spec.data(), spec.size()).append(1, '\n').append(name.data(), name.size());
  const std::lock_guard<std::mutex> lock(*mutex);
  if (const auto found = layers->find(key); found != layers->end()) return found->second;
  nn::check_channels(type_name(dims), channels);
  const LayerSpec parsed(std::string(spec.data(), spec.size()));
  auto layer = std::make_shared<const Layer>(
      Layer{parsed, channels, dims, std::string(name.data(), name.size()),
            std::make_shared<const core::LayerAlgebra>(parsed, channels)});
  if (layers->size() >= many) layers->clear();
  layers->emplace(std::move(key), layer);
  return layer;
}

Call::Call(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
           const OptionalTensor& skew, const Named& named)
    : weight_(value_or_none(weight)),
      bias_(value_or_none(bias)),
      skew_(value_or_none(skew)),
      layer_(find_layer(named)) {
  const int64_t channels = named.channels;
  const nn::Callee callee = this->callee();
  nn::check_rank(callee, x);
  nn::check_input(callee, x, {weight_, bias_, skew_});
  if (weight_.defined()) nn::check_shape(callee, "weight", weight_, {channels});
  if (bias_.defined()) nn::check_shape(callee, "bias", bias_, {channels});
  TORCH_CHECK(skew_.defined() == layer_->spec.has_rotation(), callee.description(), ": expected ",
              layer_->spec.has_rotation() ? "a skew" : "no skew", ", got ",
              skew_.defined() ? "one" : "none");
  if (skew_.defined()) nn::check_shape(callee, "skew", skew_, {core::skew_size(channels)});
}

nn::Callee Call::callee() const {
  return {type_name(layer_->dims),
          layer_->dims,
          layer_->channels,
          layer_->spec,
          layer_->name,
          layer_->algebra,
          weight_,
          bias_,
          skew_};
}

nn::LayerCall Call::on_average(const Tensor& mean, const Tensor& statistic, bool transform) const {
  const nn::Callee callee = this->callee();
  const int64_t n = layer_->channels;
  nn::check_shape(callee, "the running mean", mean, {n});
  if (per_channel() && !transform)
    nn::check_shape(callee, "the running variance", statistic, {n});
  else
    nn::check_shape(callee, transform ? "the running transform" : "the running covariance",
                    statistic, {n, n});
  const nn::Average average = nn::average_of(callee, mean, statistic, transform);
  return {layer_->algebra, folds().find(callee, average), average.parameters, callee.description()};
}

}  // namespace orthobatch::ops
