#pragma once

#include <cstddef>

namespace orthobatch {

/// Columns of the terminal that a descriptor is; `otherwise` where it is none.
size_t terminal_width(int descriptor, size_t otherwise);

}  // namespace orthobatch
