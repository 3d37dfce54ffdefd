#pragma once
// What was made from tensors, while those live and are as they were: the same storage at the same
// version. A write through `.data` leaves no trace in the version, so on the CPU the first values are
// compared as well.

#include <ATen/core/Tensor.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace orthobatch::ops {

/// A tensor as it was.
class Seen {
 public:
  explicit Seen(const at::Tensor& t) {
    if (!t.defined()) return;
    storage_ = t.storage().getWeakStorageImpl();
    version_ = version(t);
    const auto [data, size] = first_values(t);
    if (size > 0) values_.assign(data, size);
  }

  bool alive() const { return !storage_ || !storage_->expired(); }
  bool is(const at::Tensor& t) const {
    if (t.defined() != storage_.has_value()) return false;
    if (!t.defined()) return true;
    if (storage_->expired() ||
        t.storage().unsafeGetStorageImpl() != storage_->_unsafe_get_target() ||
        version(t) != version_)
      return false;
    const auto [data, size] = first_values(t);
    return size == values_.size() && std::memcmp(data, values_.data(), size) == 0;
  }

 private:
  static uint32_t version(const at::Tensor& t) {
    return t.is_inference() ? 0 : static_cast<uint32_t>(t._version());
  }
  static std::pair<const char*, size_t> first_values(const at::Tensor& t) {
    constexpr size_t enough = size_t{1} << 16;
    if (!t.is_cpu() || t.numel() == 0) return {nullptr, 0};
    const size_t there = t.storage().nbytes() - t.storage_offset() * t.itemsize();
    return {static_cast<const char*>(t.data_ptr()), std::min(enough, there)};
  }

  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage_;  // none: it was not defined
  uint32_t version_ = 0;
  std::string values_;
};

template <typename Value>
class Memory {
 public:
  /// What was put for these tensors; null where they have changed. `maker` is what made it of them.
  std::shared_ptr<const Value> find(const std::vector<at::Tensor>& from,
                                    const std::shared_ptr<const void>& maker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(key(from));
    if (found == entries_.end() || found->second.maker != maker) return nullptr;
    for (size_t k = 0; k < from.size(); ++k)
      if (!found->second.from[k].is(from[k])) return nullptr;
    return found->second.value;
  }

  void put(const std::vector<at::Tensor>& from, const std::shared_ptr<const void>& maker,
           std::shared_ptr<const Value> value) {
    Entry entry{{}, maker, std::move(value)};
    for (const at::Tensor& t : from) entry.from.emplace_back(t);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (entries_.size() >= many_) forget_the_dead();
    entries_.insert_or_assign(key(from), std::move(entry));
  }

 private:
  struct Entry {
    std::vector<Seen> from;
    std::shared_ptr<const void> maker;
    std::shared_ptr<const Value> value;
  };
  static const void* key(const std::vector<at::Tensor>& from) {
    return from.front().storage().unsafeGetStorageImpl();
  }
  void forget_the_dead() {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      bool alive = true;
      for (const Seen& s : entry->second.from) alive = alive && s.alive();
      entry = alive ? std::next(entry) : entries_.erase(entry);
    }
    many_ = std::max<size_t>(64, 2 * entries_.size());
  }

  std::mutex mutex_;
  std::unordered_map<const void*, Entry> entries_;
  size_t many_ = 64;
};

}  // namespace orthobatch::ops
