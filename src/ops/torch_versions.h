#pragma once
// Everything that LibTorch says differently from 1.13 to 2.15.

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/version.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace orthobatch {

// ------------------------------------------------------------------------------------- warnings
/// Gets every warning of its thread while a WarningGuard holds it.
class WarningHandler : public c10::WarningHandler {
 public:
  virtual void take(const std::string& message) = 0;

#if TORCH_VERSION_MAJOR >= 2
  void process(const c10::Warning& warning) final { take(warning.msg()); }
#else
  void process(const c10::SourceLocation&, const std::string& message, bool) final {
    take(message);
  }
#endif
};

#if TORCH_VERSION_MAJOR >= 2
using WarningGuard = c10::WarningUtils::WarningHandlerGuard;
#else
using WarningGuard = c10::Warning::WarningHandlerGuard;
#endif

// ------------------------------------------------------------------------- nodes of autograd's graph
/// std::shared_ptr, in new versions c10::intrusive_ptr.
using NodePointer = decltype(torch::autograd::Edge::function);

template <typename T, typename... Arguments>
auto make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<torch::autograd::Node>>)
    // Found by its argument's namespace, as new versions have none. It takes long graphs apart
    // without recursion.
    return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...),
                              [](T* node) { deleteNode(node); });
  else
    return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
}

// ------------------------------------------------------------------------------------ allocations
template <typename Report>
struct TotalOf;
template <typename Total>
struct TotalOf<void (c10::MemoryReportingInfoBase::*)(void*, int64_t, Total, Total, c10::Device)> {
  using type = Total;
};
/// The type of the totals in the allocator's reports: int64_t or size_t.
using TotalMemory = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::type;

}  // namespace orthobatch
