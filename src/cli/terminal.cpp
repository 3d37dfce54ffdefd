#include "cli/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/text.h"
#include "report/table.h"

namespace orthobatch::cli {
namespace {

using Clock = std::chrono::steady_clock;

class TerminalProgress : public train::Progress {
 public:
  ~TerminalProgress() override { status_.clear(); }

  /// A line that cannot be written, as on a terminal that is gone, must not end a training.
  void line(const std::string& text) override {
    status_.clear();
    if (!::isatty(STDERR_FILENO)) {
      put(text + "\n", stderr);
      return;
    }
    const size_t indent = text.find_first_not_of(' ');
    const size_t width = std::max<size_t>(terminal_width(STDERR_FILENO, 80), 20);
    std::string before(indent == std::string::npos ? 0 : indent, ' ');
    for (const std::string& part : report::wrap(text, width - before.size() - 2)) {
      put(before + part + "\n", stderr);
      if (before.size() == indent) before += "  ";
    }
  }

  void update(const Moment& m) override {
    if (::isatty(STDERR_FILENO)) {
      if (status_.due())
        status_.show(progress_text(m, overall_, terminal_width(STDERR_FILENO, 80) - 1));
    } else if (Clock::now() - last_line_ >= std::chrono::minutes(1)) {
      last_line_ = Clock::now();
      line(progress_text(m, overall_, 0));
    }
  }

  void set_overall(const train::Progress::Overall& overall) override { overall_ = overall; }
  void clear() override { status_.clear(); }

 private:
  TerminalLine status_;
  std::optional<train::Progress::Overall> overall_;
  Clock::time_point last_line_ = Clock::now();
};

}  // namespace

std::string progress_text(const train::Progress::Moment& m,
                          const std::optional<train::Progress::Overall>& overall, size_t width) {
  const double share = static_cast<double>(m.step) / static_cast<double>(m.steps);
  const std::string epoch = fmt::format("epoch {}/{}", m.epoch, m.epochs);
  const std::string head =
      overall ? fmt::format("[{}/{}] {}", overall->run, overall->runs, epoch) : epoch;
  std::string left =
      fmt::format("left: epoch {}, run {}", base::duration_text(m.seconds_left_epoch),
                  base::duration_text(m.seconds_left));
  if (overall) {
    const double each = overall->seconds_epoch > 0 ? overall->seconds_epoch : m.seconds_epoch;
    left += ", all " + base::duration_text(m.seconds_left + each * overall->epochs_after);
  }
  // What a narrow terminal can do without goes first.
  const std::vector<std::string> parts = {fmt::format("{:.0f} images/s", m.images_per_second),
                                          fmt::format("error {:.2f} %", m.error_percent),
                                          fmt::format("loss {:.4f}", m.loss)};
  for (size_t dropped = 0;; ++dropped) {
    std::string after = fmt::format("{:3.0f} %", 100 * share);
    for (size_t i = parts.size(); i-- > dropped;) after += "  " + parts[i];
    after += "  " + left;
    const size_t used = head.size() + 1 + after.size();
    if (width > 0 && used > width && dropped < parts.size()) continue;
    if (width < used + 11) return head + " " + after;
    const size_t bar = std::min<size_t>(width - used - 3, 40);
    const auto full = static_cast<size_t>(share * static_cast<double>(bar));
    return fmt::format("{} [{}{}] {}", head, std::string(full, '='), std::string(bar - full, ' '),
                       after);
  }
}

size_t terminal_width(int descriptor, size_t otherwise) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

size_t table_width() { return terminal_width(STDOUT_FILENO, 1 << 20); }

TerminalLine::TerminalLine(bool shown) : shown_(shown && ::isatty(STDERR_FILENO)) {}

bool TerminalLine::due() {
  if (!shown_ || Clock::now() - last_ < std::chrono::milliseconds(100)) return false;
  last_ = Clock::now();
  return true;
}

void TerminalLine::show(std::string text) {
  text.resize(std::min(text.size(), std::max<size_t>(terminal_width(STDERR_FILENO, 80), 2) - 1));
  std::fputs(("\r\033[K" + text).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void TerminalLine::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

std::unique_ptr<train::Progress> terminal_progress(bool quiet) {
  if (quiet) return std::make_unique<train::Progress>();
  return std::make_unique<TerminalProgress>();
}

}  // namespace orthobatch::cli
