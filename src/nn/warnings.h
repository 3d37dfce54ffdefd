#pragma once
// Torch's warnings, caught. The one thing that LibTorch 1.13 and 2 say differently.

#include <c10/util/Exception.h>
#include <torch/version.h>

#include <string>

namespace orthobatch {

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

}  // namespace orthobatch
