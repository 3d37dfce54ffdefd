#include "bench/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>

namespace orthobatch::bench {
namespace {

/// The type of the totals in a report: int64_t in LibTorch 1.13, size_t in later ones.
template <typename Report>
struct TotalOf;
template <typename Total>
struct TotalOf<void (c10::MemoryReportingInfoBase::*)(void*, int64_t, Total, Total, c10::Device)> {
  using type = Total;
};
using Total = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::type;

/// The allocator reports to the one that is its thread's "profiler".
struct Reports : c10::MemoryReportingInfoBase {
  // A block's size, negative where it is freed.
  void reportMemoryUsage(void*, int64_t size, Total, Total, c10::Device) override {
    in_use += size;
    peak = std::max(peak, in_use);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t in_use = 0, peak = 0;
};

}  // namespace

struct TensorMemory::Guarded {
  std::shared_ptr<Reports> reports = std::make_shared<Reports>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, reports};
};

TensorMemory::TensorMemory() : guarded_(std::make_unique<Guarded>()) {}
TensorMemory::~TensorMemory() = default;

int64_t TensorMemory::in_use() const { return guarded_->reports->in_use; }
int64_t TensorMemory::peak() const { return guarded_->reports->peak; }
void TensorMemory::reset_peak() { guarded_->reports->peak = guarded_->reports->in_use; }

}  // namespace orthobatch::bench
