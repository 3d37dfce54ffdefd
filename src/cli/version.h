#pragma once

#include <string>

namespace orthobatch::cli {

/// The program's version; below it the libraries it computes with, as they found this machine.
std::string version_text();

}  // namespace orthobatch::cli
