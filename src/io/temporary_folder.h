#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "io/file.h"

namespace orthobatch::io {

/// A folder that is gone, with all in it, at the end of its scope.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "orthobatch-XXXXXX").string();
    if (!::mkdtemp(path_.data())) throw FileError(path_, "cannot create a temporary folder");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

}  // namespace orthobatch::io
