#include "bench/runner.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <omp.h>

#include <algorithm>
#include <memory>

#include "ops/torch_versions.h"

#ifndef _OPENMP
#error "at::parallel_for runs on one thread in code compiled without OpenMP"
#endif

namespace orthobatch::bench {
namespace {

/// The allocator reports to the one that is its thread's "profiler".
struct Reports : c10::MemoryReportingInfoBase {
  // A block's size, negative where it is freed.
  void reportMemoryUsage(void*, int64_t size, TotalMemory, TotalMemory, c10::Device) override {
    in_use += size;
    peak = std::max(peak, in_use);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t in_use = 0, peak = 0;
};

Row& row_of(Table& table, const std::string& name) {
  for (Row& row : table.rows)
    if (row.name == name) return row;
  return table.rows.emplace_back(Row{name});
}

}  // namespace

double Times::median() const {
  std::vector<double> sorted = each;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Times::best() const { return *std::min_element(each.begin(), each.end()); }

const Times* Row::find(const std::string& part) const {
  const auto found = parts.find(part);
  return found == parts.end() ? nullptr : &found->second;
}

const Row* Table::find(const std::string& row) const {
  for (const Row& one : rows)
    if (one.name == row) return &one;
  return nullptr;
}

double Table::median(const std::string& row, const std::string& part) const {
  return find(row)->find(part)->median();
}

int64_t peak_of_tensors(const std::function<void()>& work) {
  const auto reports = std::make_shared<Reports>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, reports);
  work();
  return reports->peak;
}

void run_in_turn(const std::vector<Contestant>& contestants, const Session& session, Table& table) {
  session.progress(table.place);
  const int64_t memory_round = session.repeats + 1;
  for (int64_t round = 0; round <= memory_round; ++round)
    for (const Contestant& contestant : contestants) {
      if (session.stop) throw Stopped();
      // Not at::set_num_threads, which makes a new pool of another library's threads each time;
      // those spin on a core for a while.
      omp_set_num_threads(contestant.threads > 0 ? contestant.threads : session.threads);
      Row& row = row_of(table, contestant.row);
      if (round < memory_round) {
        const Sample sample = contestant.run();
        if (round == 0) continue;  // to warm up
        for (const auto& [part, took] : sample) row.parts[part].each.push_back(took);
      } else if (contestant.returned_bytes) {
        const int64_t peak = peak_of_tensors([&] { contestant.run(); });
        row.extra_bytes = std::max<int64_t>(0, peak - *contestant.returned_bytes);
      }
    }
  omp_set_num_threads(session.threads);
}

}  // namespace orthobatch::bench
