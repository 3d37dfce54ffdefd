#pragma once

#include <string>

namespace orthobatch::cli {

/// Starts the program anew, in its place, where OpenBLAS has taken the processor for an older one:
/// it reads its core type once, when it is loaded. Returns where nothing is to be mended.
void restart_on_right_core(char** argv);

/// One line on that the program was started anew and why; empty where it was not, or was told.
std::string restart_note();

}  // namespace orthobatch::cli
