#pragma once

#include <atomic>

namespace orthobatch::cli {

/// From now on the first Ctrl-C (or SIGTERM) sets interrupted(), the second ends the process.
void stop_on_signals();
const std::atomic<bool>& interrupted();

}  // namespace orthobatch::cli
