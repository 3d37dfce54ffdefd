#include "cli/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace orthobatch::cli {
namespace {

using Clock = std::chrono::steady_clock;

class TerminalProgress : public train::Progress {
 public:
  ~TerminalProgress() override { status_.clear(); }

  /// A line that cannot be written, as on a terminal that is gone, must not end a training.
  void line(const std::string& text) override {
    status_.clear();
    put(text + "\n", stderr);
  }

  void update(const Moment& m) override {
    if (::isatty(STDERR_FILENO)) {
      if (status_.due()) status_.show(with_bar(m));
    } else if (Clock::now() - last_line_ >= std::chrono::minutes(1)) {
      last_line_ = Clock::now();
      line(head(m) + " " + numbers(m));
    }
  }

  void set_overall(const Overall& overall) override { overall_ = overall; }
  void clear() override { status_.clear(); }

 private:
  std::string head(const Moment& m) const {
    const std::string epoch = fmt::format("epoch {}/{}", m.epoch, m.epochs);
    return overall_ ? fmt::format("[{}/{}] {}", overall_->run, overall_->runs, epoch) : epoch;
  }

  std::string numbers(const Moment& m) const {
    std::string out =
        fmt::format("{:3.0f} %  {:.0f} images/s  loss {:.4f}  error {:.2f} %  left {} of epoch, {}",
                    100 * share(m), m.images_per_second, m.loss, m.error_percent,
                    base::duration_text(m.seconds_left_epoch), base::duration_text(m.seconds_left));
    if (!overall_) return out;
    const double epoch = overall_->seconds_epoch > 0 ? overall_->seconds_epoch : m.seconds_epoch;
    return out + fmt::format(", {} of all",
                             base::duration_text(m.seconds_left + epoch * overall_->epochs_after));
  }

  std::string with_bar(const Moment& m) const {
    const std::string before = head(m), after = numbers(m);
    const int room = static_cast<int>(terminal_width(STDERR_FILENO, 80)) -
                     static_cast<int>(before.size() + after.size()) - 6;
    if (room < 8) return before + " " + after;
    const int width = std::min(room, 40), full = static_cast<int>(share(m) * width);
    return fmt::format("{} [{}{}] {}", before, std::string(full, '='),
                       std::string(width - full, ' '), after);
  }

  static double share(const Moment& m) {
    return static_cast<double>(m.step) / static_cast<double>(m.steps);
  }

  TerminalLine status_;
  std::optional<Overall> overall_;
  Clock::time_point last_line_ = Clock::now();
};

}  // namespace

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
