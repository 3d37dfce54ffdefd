#pragma once
// c10d's TCPStore: a few texts by name that every rank can read and write.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace orthobatch {

class Store {
 public:
  using Timeout = std::chrono::milliseconds;
  /// One that this process keeps, reachable at this address alone; port 0: any that is free.
  static Store keep(const std::string& address, int port, Timeout timeout);
  /// One that another process keeps, or will within the timeout.
  static Store connect(const std::string& address, int port, Timeout timeout);
  /// The same store, all names behind a prefix.
  Store below(const std::string& prefix) const;

  // All of them throw RankError where the store is gone.
  void set(const std::string& key, const std::string& text);
  /// Empty: nobody has set it yet.
  std::optional<std::string> look(const std::string& key);
  /// Sets it unless somebody has; what is there now.
  std::string set_first(const std::string& key, const std::string& text);
  int64_t add(const std::string& key, int64_t more);

  int port() const;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  explicit Store(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  static Store open(const std::string& address, int port, Timeout timeout, bool keeps);
  std::shared_ptr<Impl> impl_;
};

}  // namespace orthobatch
