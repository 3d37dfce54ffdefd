#include "cli/bench_print.h"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <torch/version.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

#include "base/processor.h"
#include "core/linalg.h"
#include "kernels/loops.h"
#include "orthobatch/version.h"
#include "report/table.h"

namespace orthobatch::cli {
namespace {

using bench::Row;
using bench::Table;
using Json = nlohmann::ordered_json;
using Cells = std::vector<std::vector<std::string>>;

constexpr double mib = 1 << 20;
constexpr int64_t most_ranks = 1024;

/// A number of a row; NaN where there is none.
struct Column {
  const char* title;
  std::function<double(const Table&, const Row&)> value;
};

double statistic(const Row* row, const char* part, double (bench::Times::*of)() const) {
  const bench::Times* times = row ? row->find(part) : nullptr;
  return times ? (times->*of)() : NAN;
}

double median(const Row* row, const char* part = bench::total_part) {
  return statistic(row, part, &bench::Times::median);
}

Column median_of(const char* title, const char* part) {
  return {title, [part](const Table&, const Row& row) { return median(&row, part); }};
}

/// Over another row.
Column over(const char* title, const char* other) {
  return {title, [other](const Table& table, const Row& row) {
            return median(&row) / median(table.find(other));
          }};
}

/// A part of a row over all of it.
Column share(const char* title, const char* part, double unit = 1) {
  return {title, [part, unit](const Table&, const Row& row) {
            return unit * median(&row, part) / median(&row);
          }};
}

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
      median_of("gather ms", bench::gather_part),
      median_of("sum ms", bench::sum_part),
      median_of("forward", bench::forward_part),
      median_of("backward", bench::backward_part),
      median_of("ms", bench::total_part),
      {"best",
       [](const Table&, const Row& row) {
         return statistic(&row, bench::total_part, &bench::Times::best);
       }},
      over("x none", bench::no_norm_row),
      over("x torch", bench::torch_row),
      over("x GEMM", bench::gemm_row),
      share("speed-up", bench::one_thread_part),
      share("NxN, %", bench::algebra_part, 100),
      {"MiB", [](const Table&, const Row& row) {
         return row.extra_bytes ? static_cast<double>(*row.extra_bytes) / mib : NAN;
       }}};
  return all;
}

/// Numbers of a column end in the same place.
std::string cell(double x) {
  return std::isnan(x) ? fmt::format("{:>9}", "-") : fmt::format("{:9.2f}", x);
}

struct NamedLink {
  std::string name;
  bench::Link link;
};

/// Networks have the latency that was measured, which is mostly that of threads waking up.
std::vector<NamedLink> links_of(const bench::Link& measured) {
  std::vector<NamedLink> out = {{"as measured", measured}};
  for (const double gigabits : {10.0, 100.0})
    out.push_back({fmt::format("{:g} Gbit/s", gigabits),
                   {measured.latency, std::min(measured.rate, gigabits * 1e9 / 8)}});
  return out;
}

Json json_of(const Table& table) {
  Json out = {{"section", table.section}, {"place", table.place}};
  for (const auto& [name, value] : table.figures) out[name] = value;
  for (const Row& row : table.rows) {
    Json one = {{"name", row.name}};
    for (const auto& [part, times] : row.parts)
      one[part] = {
          {"median_ms", times.median()}, {"best_ms", times.best()}, {"each_ms", times.each}};
    if (row.extra_bytes) one["extra_bytes"] = *row.extra_bytes;
    out["rows"].push_back(one);
  }
  return out;
}

}  // namespace

std::string text_of(const Table& table) {
  std::string title = table.section + ": " + table.place;
  for (const auto& [name, value] : table.figures) title += fmt::format(", {} {:.2f}", name, value);
  Cells cells = {{""}};
  for (const Row& row : table.rows) cells.push_back({row.name});
  for (const Column& column : columns()) {
    std::vector<double> values;
    for (const Row& row : table.rows) values.push_back(column.value(table, row));
    if (std::all_of(values.begin(), values.end(), [](double x) { return std::isnan(x); })) continue;
    cells.front().push_back(fmt::format("{:>9}", column.title));
    for (size_t i = 0; i < values.size(); ++i) cells[i + 1].push_back(cell(values[i]));
  }
  return title + "\n" + report::format_table(cells);
}

std::string text_of(const bench::Exchanges& e) {
  Cells loads = {{"net", "layers", "forward MB", "backward MB", "gradients MB", "fixed ms",
                  "ms an image", fmt::format("step on {} ranks, expected ms", e.ranks)}},
        plan = {{"speed-up on ranks", "link"}};
  for (int64_t ranks = 2; ranks <= most_ranks; ranks *= 2)
    plan.front().push_back(std::to_string(ranks));
  for (const bench::NetLoad& net : e.nets) {
    loads.push_back({net.name, std::to_string(net.layers), cell(net.forward / 1e6),
                     cell(net.backward / 1e6), cell(net.gradients / 1e6),
                     cell(1e3 * net.seconds_fixed), cell(1e3 * net.seconds_image),
                     cell(1e3 * net.step(e.ranks, e.link))});
    for (const NamedLink& l : links_of(e.link)) {
      plan.push_back({net.name, l.name});
      for (int64_t ranks = 2; ranks <= most_ranks; ranks *= 2)
        plan.back().push_back(fmt::format("{:.1f}", net.speed_up(ranks, l.link)));
    }
  }
  return fmt::format("{}A round takes {:.0f} us and its bytes at {:.2f} GB/s.\n\n{}\n{}\n{}",
                     text_of(e.collectives), 1e6 * e.link.latency, e.link.rate / 1e9,
                     text_of(e.steps), report::format_table(loads), report::format_table(plan));
}

Json json_of(const std::vector<Table>& tables, const bench::Session& session) {
  utsname system{};
  uname(&system);
  Json out = {{"format", "orthobatch bench 1"},
              {"machine",
               {{"system", std::string(system.sysname) + " " + system.release},
                {"architecture", system.machine},
                {"cpu", base::processor_name()},
                {"blas", to_string(base::blas_core())},
                {"loops", kernels::loops_name()},
                {"cores", std::thread::hardware_concurrency()}}},
              {"versions",
               {{"orthobatch", ORTHOBATCH_VERSION},
                {"torch", TORCH_VERSION},
                {"compiler", __VERSION__},
                {"products", core::linalg::products_library()}}},
              {"load_before", session.load_before},
              {"threads", session.threads},
              {"repeats", session.repeats}};
  for (const Table& table : tables) out["tables"].push_back(json_of(table));
  return out;
}

Json json_of(const bench::Exchanges& e, const bench::Session& session) {
  Json out = json_of({e.collectives, e.steps}, session);
  out["ranks"] = e.ranks;
  out["latency_seconds"] = e.link.latency;
  out["bytes_per_second"] = e.link.rate;
  for (const bench::NetLoad& net : e.nets) {
    Json one = {{"name", net.name}};
    for (const NamedLink& l : links_of(e.link))
      for (int64_t ranks = 2; ranks <= most_ranks; ranks *= 2)
        one["speed_up"][l.name][std::to_string(ranks)] = net.speed_up(ranks, l.link);
    out["nets"].push_back(one);
  }
  return out;
}

}  // namespace orthobatch::cli
