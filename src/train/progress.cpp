#include "train/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "io/terminal.h"

namespace orthobatch {
namespace {

constexpr double redraw_seconds = 0.1, line_seconds = 60;

size_t columns() { return terminal_width(STDERR_FILENO, 80); }

/// A line that cannot be written, as on a terminal that is gone, must not end a training.
void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const auto s = static_cast<long>(std::lround(seconds));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

Progress::Style Progress::style_for_terminal(bool quiet) {
  if (quiet) return Style::quiet;
  return ::isatty(STDERR_FILENO) ? Style::bar : Style::lines;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

void Progress::line(const std::string& text) {
  if (style_ == Style::quiet) return;
  clear();
  say(text + "\n");
}

void Progress::update(const Moment& m) {
  if (style_ == Style::quiet) return;
  const auto now = std::chrono::steady_clock::now();
  const double since = std::chrono::duration<double>(now - last_).count();
  if (since < (style_ == Style::bar ? redraw_seconds : line_seconds)) return;
  last_ = now;
  const double share = static_cast<double>(m.step) / static_cast<double>(m.steps);
  std::string numbers =
      fmt::format("{:3.0f} %  {:.0f} images/s  loss {:.4f}  error {:.2f} %  left {} of epoch, {}",
                  100 * share, m.images_per_second, m.loss, m.error_percent,
                  duration_text(m.seconds_left_epoch), duration_text(m.seconds_left));
  std::string head = fmt::format("epoch {}/{}", m.epoch, m.epochs);
  if (overall_) {
    const double epoch = overall_->seconds_epoch > 0 ? overall_->seconds_epoch : m.seconds_epoch;
    head = fmt::format("[{}/{}] {}", overall_->run, overall_->runs, head);
    numbers +=
        fmt::format(", {} of all", duration_text(m.seconds_left + epoch * overall_->epochs_after));
  }
  if (style_ == Style::lines) {
    say(head + " " + numbers + "\n");
    return;
  }
  const int room = static_cast<int>(columns()) - static_cast<int>(head.size() + numbers.size()) - 6;
  std::string bar;
  if (room >= 8) {
    const int full = static_cast<int>(share * std::min(room, 40));
    bar = " [" + std::string(full, '=') + std::string(std::min(room, 40) - full, ' ') + "]";
  }
  std::string text = head + bar + " " + numbers;
  text.resize(std::min(text.size(), std::max<size_t>(columns(), 2) - 1));
  say("\r\033[K" + text);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace orthobatch
