#pragma once
// Processes that share their batches' statistics, over whatever has c10d's collectives.
//
//     c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo = …;       // or any other of c10d's
//     BatchOrthoOptions(64).process_group(gloo);
//     orthobatch::convert_sync(*net, gloo);                       // every layer of a net
//
// This header needs nothing of c10d: what it calls is looked up where a group is handed over.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "orthobatch/export.h"

namespace orthobatch {

/// What a layer asks of a group. Every process calls the same, in the same order.
class ORTHOBATCH_API Collectives : public std::enable_shared_from_this<Collectives> {
 public:
  Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  virtual ~Collectives();

  /// What stands for it in the arguments of operators: 1 or more, in this process alone.
  int64_t number() const { return number_; }

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// The tensors of all processes, in their order; of one size and type.
  virtual std::vector<at::Tensor> gather(const at::Tensor& t) = 0;
  /// The sum over all processes, in place.
  virtual void sum(at::Tensor& t) = 0;
  /// The same, begun: it is there when what this returns has been called.
  virtual std::function<void()> begin_sum(at::Tensor t) {
    sum(t);
    return [] {};
  }

 private:
  int64_t number_;
};

/// A group of processes, or none: this process alone.
class ProcessGroup {
 public:
  ProcessGroup() = default;
  ProcessGroup(std::nullptr_t) {}                   // NOLINT(google-explicit-constructor): none
  ProcessGroup(std::shared_ptr<Collectives> group)  // NOLINT(google-explicit-constructor)
      : group_(std::move(group)) {}
  /// Of c10d's: a ProcessGroup, or a backend such as ProcessGroupGloo.
  template <typename Group>
  ProcessGroup(c10::intrusive_ptr<Group> group)  // NOLINT(google-explicit-constructor)
      : group_(group ? std::make_shared<Of<Group>>(std::move(group)) : nullptr) {}

  explicit operator bool() const { return group_ != nullptr; }
  Collectives* operator->() const { return group_.get(); }
  const std::shared_ptr<Collectives>& get() const { return group_; }

 private:
  template <typename Group>
  class Of : public Collectives {
   public:
    explicit Of(c10::intrusive_ptr<Group> group) : group_(std::move(group)) {}
    int64_t rank() const override { return group_->getRank(); }
    int64_t size() const override { return group_->getSize(); }
    std::vector<at::Tensor> gather(const at::Tensor& t) override {
      std::vector<std::vector<at::Tensor>> out(1);
      for (int64_t k = 0; k < size(); ++k) out[0].push_back(at::empty_like(t));
      std::vector<at::Tensor> in = {t};
      group_->allgather(out, in)->wait();
      return out[0];
    }
    void sum(at::Tensor& t) override {
      std::vector<at::Tensor> one = {t};
      group_->allreduce(one)->wait();
    }
    std::function<void()> begin_sum(at::Tensor t) override {
      std::vector<at::Tensor> one = {t};
      return [t, work = group_->allreduce(one)] { work->wait(); };
    }

   private:
    c10::intrusive_ptr<Group> group_;
  };

  std::shared_ptr<Collectives> group_;
};

}  // namespace orthobatch
