#pragma once
// TensorBoard's event files: TFRecords of protobuf Events, scalars only. By hand: a few kinds of
// fields, where protobuf would bring its compiler and a library that must be the one libtorch has.

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace orthobatch::train {

/// Appends to one file for as long as it lives. A run that is taken up again writes another file
/// beside it, which starts by telling TensorBoard from which step on it replaces what came before.
class EventWriter {
 public:
  /// In `directory`, named as TensorBoard looks for it.
  EventWriter(const std::string& directory, int64_t first_step);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  const std::string& path() const { return path_; }

 private:
  void record(const std::string& event);

  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace orthobatch::train
