#pragma once
// What a person sees on a terminal while the program works.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "train/progress.h"

namespace orthobatch::cli {

/// Columns of the terminal that a descriptor is; `otherwise` where it is none.
size_t terminal_width(int descriptor, size_t otherwise);

/// Columns that a table on standard output may have: in a file nothing is cut.
size_t table_width();

/// One line on standard error, where that is a terminal, which is written over at most ten times a
/// second and goes with its scope.
class TerminalLine {
 public:
  explicit TerminalLine(bool shown = true);
  ~TerminalLine() { clear(); }
  /// Whether there is one, and the last is long enough ago.
  bool due();
  void show(std::string text);
  void clear();

 private:
  bool shown_, drawn_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// How far a training is, in one line of `width` columns; 0: as long as it takes, without a bar.
std::string progress_text(const train::Progress::Moment& moment,
                          const std::optional<train::Progress::Overall>& overall, size_t width);

/// A bar on a terminal; in a file or pipe a line each minute; nothing where `quiet`.
std::unique_ptr<train::Progress> terminal_progress(bool quiet);

}  // namespace orthobatch::cli
