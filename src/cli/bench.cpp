// orthobatch bench: the layers' speed and memory beside torch's BatchNorm2d and no layer at all.

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/processor.h"
#include "base/text.h"
#include "bench/sections.h"
#include "cli/bench_print.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "cli/reading.h"
#include "cli/restart.h"
#include "cli/verbs.h"
#include "io/json.h"

namespace orthobatch::cli {
namespace {

constexpr int64_t default_repeats = 5, quick_repeats = 1;
constexpr double busy_load = 0.5;

std::vector<std::string> all_sections() {
  std::vector<std::string> out;
  for (const bench::Section& section : bench::sections()) out.emplace_back(section.name);
  return out;
}

struct BenchArguments {
  std::string shapes, layout = "both";
  std::vector<std::string> layers, sections = all_sections();
  std::optional<int> threads;
  int64_t repeats = 0;
  bool quick = false, json = false;
  ProcessOptions ranks;
};

bench::Request request_of(const BenchArguments& a) {
  bench::Request out;
  out.quick = a.quick;
  if (!a.shapes.empty())
    out.shapes = bench::parse_shapes(a.shapes);
  else if (a.quick)
    out.shapes = {{16, 16, 8, 8}, {16, 64, 8, 8}};
  else
    out.shapes = bench::standard_shapes();
  if (a.layout != "nchw") out.layouts.push_back(bench::Layout::channels_last);
  if (a.layout != "cl") out.layouts.push_back(bench::Layout::nchw);
  out.candidates = bench::candidates_of(a.layers);
  return out;
}

bench::Session session_of(const BenchArguments& a, int sharers = 1) {
  // Two threads that share a core wait for each other far longer than they work on small shapes.
  const int threads = a.threads.value_or(a.quick ? 1 : 0);
  double load = 0;
  getloadavg(&load, 1);
  const bench::Session out = {
      threads > 0 ? threads : std::max(1, all_threads() / sharers),
      a.repeats > 0 ? a.repeats : (a.quick ? quick_repeats : default_repeats), interrupted(),
      [](const std::string& place) { fmt::print(stderr, "measuring {}\n", place); }, load};
  at::set_num_threads(out.threads);
  return out;
}

void print(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

/// In several processes it is what lies between them that is measured.
int run_in_processes(const BenchArguments& a, int processes) {
  const nlohmann::json about = {{"verb", "bench"}, {"quick", a.quick}, {"repeats", a.repeats}};
  return run_in_ranks(a.ranks, processes, about, [&](ranks::Ranks& ranks) {
    bench::Session session = session_of(a, processes_here(a.ranks, processes));
    if (!ranks.leads()) session.progress = [](const std::string&) {};
    const bench::Exchanges exchanges = measure_exchanges(ranks, session, a.quick);
    if (ranks.leads())
      print(a.json ? io::json_text(json_of(exchanges, session)) : text_of(exchanges));
    return 0;
  });
}

int run_bench(const BenchArguments& a) {
  if (const int processes = processes_asked_for(a.ranks); processes > 1)
    return run_in_processes(a, processes);
  const bench::Request request = request_of(a);
  if (const std::string note = restart_note(); !note.empty()) complain(note);
  const bench::Session session = session_of(a);
  if (!a.json)
    print(fmt::format(
        "{}, {}, {} thread{}, {} interleaved repeats (three times as many for nets); medians in "
        "milliseconds.\n"
        "x none, x torch: time divided by that of the same net without normalisation, with torch's "
        "BatchNorm2d.\n"
        "x GEMM: time divided by that of a GEMM with whitening's 4.5 N^2 M multiply-adds.\n"
        "speed-up: one thread's time divided by that of all. NxN: factorization and its gradient.\n"
        "MiB: peak memory of tensors; of a layer without x, z and their gradients.\n",
        base::processor_name(), to_string(base::blas_core()), session.threads,
        session.threads == 1 ? "" : "s", session.repeats));
  if (session.load_before > busy_load)
    complain(
        fmt::format("warning: other programs use this machine (load {:.1f})", session.load_before));
  stop_on_signals();
  std::vector<bench::Table> tables;
  try {
    for (const bench::Section& section : bench::sections())
      if (std::count(a.sections.begin(), a.sections.end(), section.name))
        section.run(request, session, [&](bench::Table table) {
          if (!a.json) print(text_of(table));
          tables.push_back(std::move(table));
        });
  } catch (const bench::Stopped&) {
    complain("stopped");
    return interrupted_code();
  }
  if (a.json) print(io::json_text(json_of(tables, session)));
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand(
      "bench", "Measures speed and memory of the layers, torch's BatchNorm2d and no normalisation");
  auto a = std::make_shared<BenchArguments>();
  verb->add_option("--shapes", a->shapes, "Input shapes, such as 256x64x14x14,32x256x8x8")
      ->default_str("six of the paper's nets, two with many channels");
  verb->add_option("--layers", a->layers,
                   "Layer specs, or 'composed' for a ZCA of torch's operations; torch's "
                   "BatchNorm2d is always measured")
      ->type_name("SPEC")
      ->default_str("every method");
  verb->add_option("--layout", a->layout, "Memory layout of the inputs; cl: channels_last")
      ->capture_default_str()
      ->check(CLI::IsMember({"cl", "nchw", "both"}));
  verb->add_option("--sections", a->sections, "What to measure, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(all_sections()))
      ->default_str("all");
  verb->add_option("--threads", a->threads, threads_text)
      ->check(whole_number(0, 1024))
      ->default_str("0, with --quick 1");
  verb->add_option("--repeats", a->repeats, "Timed rounds")
      ->check(whole_number(1, 100000))
      ->default_str(fmt::format("{}, with --quick {}", default_repeats, quick_repeats));
  verb->add_flag("--quick", a->quick, "Small shapes and few repeats, to test that it runs");
  add_process_options(
      *verb, a->ranks,
      "Number of processes; with 2 or more, measures their communication and predicts the time of "
      "a step on more of them, in place of --sections. On several machines start each with RANK, "
      "WORLD_SIZE, MASTER_ADDR and MASTER_PORT set");
  verb->add_flag("--json", a->json, "JSON in place of the tables");
  verb->callback([&run, a] {
    try {
      if (!a->shapes.empty()) bench::parse_shapes(a->shapes);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError("--shapes", error.what());
    }
    run = [a] {
      keep_freed_memory();
      return run_bench(*a);
    };
  });
}

}  // namespace orthobatch::cli
