#pragma once
// Contestants take turns at the clock, and what they took is a table.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace orthobatch::bench {

/// Ctrl-C during a measurement.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

struct Session {
  int threads = 1;
  int64_t repeats = 1;
  const std::atomic<bool>& stop;
  /// Called with the place of each table before it is measured.
  std::function<void(const std::string& place)> progress;
  double load_before = 0;  ///< programs running or waiting for a core, on average
};

/// Milliseconds, one for each repeat.
struct Times {
  std::vector<double> each;

  double median() const;
  double best() const;
};

// The parts of a run that are timed.
constexpr const char* total_part = "total";  ///< ratios compare this one
constexpr const char* forward_part = "forward";
constexpr const char* backward_part = "backward";
constexpr const char* one_thread_part = "one_thread";  ///< the total on one thread
constexpr const char* algebra_part = "algebra";        ///< the N×N work alone
constexpr const char* gather_part = "gather";          ///< collectives between processes
constexpr const char* sum_part = "sum";

// The rows that others are compared with.
constexpr const char* torch_row = "torch BatchNorm2d";
constexpr const char* no_norm_row = "no normalisation";
constexpr const char* gemm_row = "4.5 N^2 M at the GEMM rate";

struct Row {
  std::string name;
  std::map<std::string, Times> parts = {};
  std::optional<int64_t> extra_bytes = {};  ///< of tensors at the peak of a run

  /// Null where it was not measured.
  const Times* find(const std::string& part) const;
};

/// A section at one place: everything in it was measured in turn.
struct Table {
  std::string section, place;
  std::map<std::string, double> figures = {};  ///< of the place as a whole
  std::vector<Row> rows = {};

  const Row* find(const std::string& row) const;
  double median(const std::string& row, const std::string& part = total_part) const;
};

/// Milliseconds of each part of one run.
using Sample = std::vector<std::pair<const char*, double>>;

struct Contestant {
  std::string row;  ///< several may fill different parts of one
  std::function<Sample()> run;
  int threads = 0;  ///< 0: the session's
  /// Bytes of tensors that a run returns, which are no part of extra_bytes; none: memory is not
  /// measured.
  std::optional<int64_t> returned_bytes = {};
};

/// Runs all contestants in turn, so that noise meets all alike: a round to warm up, the repeats,
/// and a round that counts memory. Adds their rows to the table. Throws Stopped.
void run_in_turn(const std::vector<Contestant>& contestants, const Session& session, Table& table);

/// The most bytes that tensors made by `work` have at once: those that libtorch allocates on the
/// calling thread, and in the backward passes it starts. What a kernel takes from the heap for
/// itself is not seen; tests/test_memory.cpp holds the whole heap to a limit.
int64_t peak_of_tensors(const std::function<void()>& work);

template <typename Work>
double milliseconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace orthobatch::bench
