#pragma once

#include <string>

namespace orthobatch::io {

/// A file of the source tree, put into the program at build by cmake/Embed.cmake.
struct EmbeddedFile {
  std::string name;  ///< without its folder
  std::string text;
};

}  // namespace orthobatch::io
