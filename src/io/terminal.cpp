#include "io/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace orthobatch {

bool locale_is_utf8() {
  // Asked of a locale of its own: the program's stays "C", in which numbers have a point.
  const locale_t users = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (!users) return false;
  const std::string codes = ::nl_langinfo_l(CODESET, users);
  ::freelocale(users);
  return codes == "UTF-8";
}

bool shows_colour(int descriptor) {
  const char *no = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  const bool dumb = terminal && std::string(terminal) == "dumb";
  return ::isatty(descriptor) != 0 && !(no && *no) && !dumb;
}

size_t terminal_width(int descriptor, size_t otherwise) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

}  // namespace orthobatch
