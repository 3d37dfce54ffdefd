#include "io/terminal.h"

#include <sys/ioctl.h>

namespace orthobatch {

size_t terminal_width(int descriptor, size_t otherwise) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace orthobatch
