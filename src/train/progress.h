#pragma once
// What a person sees of a run: a bar on a terminal, plain lines in a file or pipe, or nothing.

#include <chrono>
#include <optional>
#include <string>

namespace orthobatch {

/// "1:05", "2:03:10"
std::string duration_text(double seconds);

class Progress {
 public:
  enum class Style { bar, lines, quiet };
  /// A bar when standard error is a terminal, else lines.
  static Style style_for_terminal(bool quiet);

  explicit Progress(Style style) : style_(style) {}
  ~Progress() { clear(); }

  /// A line that stays.
  void line(const std::string& text);

  /// How far the epoch is. The bar is redrawn at most ten times a second; without a terminal a line
  /// is written each minute.
  struct Moment {
    int64_t epoch, epochs, step, steps;
    double images_per_second, loss, error_percent, seconds_left_epoch, seconds_left;
    double seconds_epoch;  ///< of a whole epoch, as it looks now
  };
  void update(const Moment& moment);

  /// For a run that is one of several: update() says how long all of them will take.
  struct Overall {
    int64_t run, runs;
    double epochs_after;   ///< of the runs to come; fewer where other processes share them
    double seconds_epoch;  ///< as the runs before took; 0: as this one takes
  };
  void set_overall(const Overall& overall) { overall_ = overall; }

  /// Takes the bar away.
  void clear();

 private:
  Style style_;
  std::optional<Overall> overall_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace orthobatch
