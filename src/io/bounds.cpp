#include "io/bounds.h"

#include <unistd.h>

#include "io/file.h"

namespace orthobatch::io {

void require_memory(double bytes, const std::string& path, const std::string& what,
                    const std::string& help) {
  const double most = 0.8 * static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<double>(::sysconf(_SC_PAGESIZE));
  const auto mebibytes = [](double n) {
    return std::to_string(static_cast<int64_t>(n / (1 << 20))) + " MiB";
  };
  if (bytes > most)
    throw FileError(path, "images", mebibytes(most) + " at most, 0.8 of the memory",
                    mebibytes(bytes) + ": " + what + help);
}

}  // namespace orthobatch::io
