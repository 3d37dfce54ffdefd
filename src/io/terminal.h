#pragma once

#include <cstddef>

namespace orthobatch {

/// Columns of the terminal that a descriptor is; `otherwise` where it is none.
size_t terminal_width(int descriptor, size_t otherwise);

/// Whether the user's locale is one of UTF-8.
bool locale_is_utf8();

/// Whether a descriptor is a terminal with colours, and the user wants them (NO_COLOR).
bool shows_colour(int descriptor);

}  // namespace orthobatch
