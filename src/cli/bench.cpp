// orthobatch bench: the layers' speed and memory beside torch's BatchNorm2d.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "base/processor.h"
#include "base/text.h"
#include "bench/report.h"
#include "cli/bench_ranks.h"
#include "cli/bench_tables.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/options.h"
#include "cli/processes.h"
#include "cli/restart.h"
#include "cli/verbs.h"
#include "io/file.h"
#include "ranks/ranks.h"

namespace orthobatch::cli {
namespace {

using bench::Layout;

constexpr int64_t default_repeats = 5, quick_repeats = 2;
constexpr double busy_load = 0.5;
// A step is short beside a round over all layers.
constexpr int64_t step_rounds_per_repeat = 3;

struct BenchArguments {
  std::string shapes, layout = "both", sections = "layers,memory,step,inference,stack,scaling",
                      json;
  std::vector<std::string> layers;
  int threads = 0;
  int64_t repeats = 0;
  bool quick = false;
  ProcessOptions ranks;
};

/// What is being measured: one line that is redrawn on a terminal, else a line for each thing.
class StatusLine {
 public:
  ~StatusLine() { clear(); }

  void show(const std::string& what, int64_t done, int64_t rounds) {
    if (on_terminal_) {
      fmt::print(stderr, "\r\033[K{}, {} of {}", what, done + 1, rounds);
      std::fflush(stderr);
      drawn_ = true;
    } else if (what != last_) {
      fmt::print(stderr, "measuring {}\n", what);
      last_ = what;
    }
  }

  void clear() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
  }

 private:
  bool on_terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool drawn_ = false;
  std::string last_;
};

std::vector<bench::Shape> shapes_of(const BenchArguments& a) {
  if (!a.shapes.empty()) return bench::parse_shapes(a.shapes);
  if (a.quick) return {{32, 16, 14, 14}, {32, 64, 8, 8}};
  return bench::standard_shapes();
}

std::vector<Layout> layouts_of(const BenchArguments& a) {
  if (a.layout == "cl") return {Layout::channels_last};
  if (a.layout == "nchw") return {Layout::nchw};
  return {Layout::channels_last, Layout::nchw};
}

std::set<std::string> sections_of(const std::string& text) {
  const std::vector<std::string> known = {"layers",    "memory", "step",
                                          "inference", "stack",  "scaling"};
  std::set<std::string> out;
  std::istringstream words(text + ",");
  for (std::string word; std::getline(words, word, ',');) {
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw std::invalid_argument(fmt::format("expected {}, separated by commas, found '{}'{}",
                                              join_choices(known), word, suggestion(word, known)));
    out.insert(word);
  }
  return out;
}

/// Before minutes of measuring, not after.
void check_place(const std::string& json) {
  if (json.empty()) return;
  const std::string folder = parent_path(json);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw FileError(json, fmt::format("cannot write in {}", folder));
}

void print(StatusLine& status, const std::string& text) {
  status.clear();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

bench::Results measure(const BenchArguments& a, bench::Session session,
                       const std::vector<bench::Candidate>& candidates, StatusLine& status) {
  const std::vector<bench::Shape> shapes = shapes_of(a);
  const std::vector<Layout> layouts = layouts_of(a);
  const std::set<std::string> sections = sections_of(a.sections);
  bench::Results results;
  if (sections.count("memory")) {
    results.memory = measure_memory(shapes, layouts, candidates, session);
    print(status, memory_table(results.memory));
  }
  if (sections.count("layers")) {
    for (const bench::Shape& shape : shapes)
      for (const Layout layout : layouts) {
        results.layers.push_back(measure_layers(shape, layout, candidates, session));
        print(status, layer_table(results.layers.back()));
      }
    print(status, mean_table(results.layers));
  }
  if (sections.count("scaling")) {
    results.scaling = measure_scaling(session, a.quick);
    for (const bench::ScalingSeries& series : results.scaling) print(status, scaling_table(series));
  }
  if (sections.count("step")) {
    session.repeats *= step_rounds_per_repeat;
    for (const char* data : {"mnist", "svhn"}) {
      results.step.push_back(measure_step(data, a.quick ? 32 : 256, session));
      print(status, step_table(results.step.back()));
    }
    session.repeats /= step_rounds_per_repeat;
  }
  if (sections.count("inference")) {
    session.repeats *= step_rounds_per_repeat;
    for (const char* data : {"mnist", "svhn"})
      for (const int64_t batch : {1, 256}) {
        results.inference.push_back(measure_inference(data, batch, session));
        print(status, inference_table(results.inference.back()));
      }
    session.repeats /= step_rounds_per_repeat;
  }
  if (sections.count("stack")) {
    results.step.push_back(measure_step(bench::stack, a.quick ? 32 : 64, session));
    print(status, step_table(results.step.back()));
  }
  return results;
}

bench::Session session_of(const BenchArguments& a, StatusLine& status, int sharers = 1) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return {a.threads > 0 ? a.threads : std::max(1, cores / sharers),
          a.repeats > 0 ? a.repeats : (a.quick ? quick_repeats : default_repeats), interrupted(),
          [&](const std::string& what, int64_t done, int64_t rounds) {
            status.show(what, done, rounds);
          }};
}

/// In several processes it is what lies between them that is measured.
int run_in_processes(const BenchArguments& a, int processes) {
  check_place(a.json);
  const nlohmann::json about = {{"verb", "bench"}, {"quick", a.quick}, {"repeats", a.repeats}};
  return run_in_ranks(a.ranks, processes, about, [&](ranks::Ranks& ranks) {
    StatusLine status;
    bench::Session session = session_of(a, status, processes_here(a.ranks, processes));
    if (!ranks.leads()) session.progress = [](const std::string&, int64_t, int64_t) {};
    bench_ranks(ranks, session, a.json, a.quick);
    return 0;
  });
}

int run_bench(const BenchArguments& a) {
  if (const int processes = processes_asked_for(a.ranks); processes > 1)
    return run_in_processes(a, processes);
  const std::vector<bench::Candidate> candidates =
      a.layers.empty() ? bench::all_candidates() : bench::parse_candidates(a.layers);
  check_place(a.json);
  if (const std::string note = restart_note(); !note.empty()) complain(note);
  StatusLine status;
  const bench::Session session = session_of(a, status);
  fmt::print(
      "{}, {}, {} thread{}, {} repeats ({} of a training step) after a warm-up, everything in turn "
      "within\n"
      "each; milliseconds, medians unless said otherwise. x torch: over torch's BatchNorm2d in "
      "the\n"
      "same layout. x GEMM: over 4.5 N^2 M multiply-adds at the rate of plain products in the "
      "same\n"
      "run. speed-up: of all threads over one. NxN: factorization and pullback, of both.\n\n",
      processor_name(), to_string(blas_core()), session.threads, session.threads == 1 ? "" : "s",
      session.repeats, step_rounds_per_repeat * session.repeats);
  const double load = bench::load_average();
  if (load > busy_load)
    fmt::print(stderr,
               "orthobatch: warning: other programs keep this machine busy (load {:.1f}): expect "
               "noise\n",
               load);
  stop_on_signals();
  try {
    const bench::Results results = measure(a, session, candidates, status);
    const std::vector<bench::Bar> bars = judge(results, session.threads);
    print(status, bar_table(bars));
    if (!a.json.empty()) {
      write_output(a.json, to_json(results, session, load, bars).dump(1) + "\n");
      fmt::print("All numbers are in {}\n", a.json);
    }
  } catch (const bench::Stopped&) {
    status.clear();
    complain("stopped" + (a.json.empty() ? "" : "; " + a.json + " was not written"));
    return interrupted_code();
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  auto* verb =
      app.add_subcommand("bench", "The layers' speed and memory beside torch's BatchNorm2d");
  auto a = std::make_shared<BenchArguments>();
  verb->add_option("--shapes", a->shapes,
                   "Inputs as 256x64x14x14,32x256x8x8; with * a pattern that picks from the "
                   "standard eight: '256x*x14x14'")
      ->default_str("those eight");
  verb->add_option("--layers", a->layers,
                   "Layer specs, or 'composed' for a ZCA of torch's operations; torch's "
                   "BatchNorm2d is always measured")
      ->type_name("SPEC")
      ->default_str("every method");
  verb->add_option("--layout", a->layout, "Of the layers' inputs: cl is channels_last")
      ->capture_default_str()
      ->check(CLI::IsMember({"cl", "nchw", "both"}));
  verb->add_option("--sections", a->sections, "What to measure")->capture_default_str();
  verb->add_option("--threads", a->threads, "All threads are so many")
      ->check(whole_number(1, 1024))
      ->default_str("all cores");
  verb->add_option("--repeats", a->repeats, "Counted rounds")
      ->check(whole_number(1, 100000))
      ->default_str(fmt::format("{}, with --quick {}", default_repeats, quick_repeats));
  verb->add_flag("--quick", a->quick,
                 "Small shapes and few repeats: whether it runs, not how fast");
  add_process_options(
      *verb, a->ranks,
      "With 2 or more: what they exchange when they train together, and what a step would take on "
      "more of them, in place of --sections. On several machines each is started with "
      "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set");
  verb->add_option("--json", a->json, "Writes every number to this file")
      ->type_name("FILE")
      ->default_str("none");
  verb->callback([&run, a] {
    const auto check = [](const char* option, const auto& parse) {
      try {
        parse();
      } catch (const std::invalid_argument& error) {
        throw CLI::ValidationError(option, error.what());
      }
    };
    check("--shapes", [&] { shapes_of(*a); });
    check("--sections", [&] { sections_of(a->sections); });
    run = [a] {
      keep_freed_memory();
      return run_bench(*a);
    };
  });
}

}  // namespace orthobatch::cli
