#pragma once

#include <atomic>

namespace orthobatch::cli {

/// From now on the first SIGINT (Ctrl-C), SIGTERM or SIGHUP sets interrupted(); one that comes a
/// second later or more ends the process. (A rank gets the same signal several times: from the
/// terminal and its launcher, or from each thread of a launcher that is killed.) Called where the
/// work begins that looks at interrupted(): before, a signal ends the program at once.
void stop_on_signals();
const std::atomic<bool>& interrupted();

/// The exit code of a program that a signal ended, as a shell counts it: 128 and its number.
int interrupted_code();

}  // namespace orthobatch::cli
