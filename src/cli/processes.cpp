#include "cli/processes.h"

#include <fmt/core.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/interrupt.h"
#include "cli/options.h"
#include "nn/message.h"
#include "orthobatch/version.h"

namespace orthobatch::cli {
namespace {

using ranks::Place;

char** arguments = nullptr;

std::chrono::milliseconds timeout_of(const ProcessOptions& options) {
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * options.timeout));
}

std::optional<Place> place_here(const ProcessOptions& options) {
  std::optional<Place> place = ranks::place_from(std::getenv);
  if (!place) return place;
  if (options.processes && *options.processes != place->size)
    throw std::invalid_argument(
        fmt::format("--processes: expected WORLD_SIZE, {}, or none, found {}", place->size,
                    *options.processes));
  place->timeout = timeout_of(options);
  return place;
}

int be_rank(const Place& place, const nlohmann::json& about, const RankWork& work) {
  complain_as(fmt::format("rank {}: ", place.rank));
  nlohmann::json all = {{"version", ORTHOBATCH_VERSION}, {"LibTorch", TORCH_VERSION}};
  all.update(about);
  ranks::Ranks* joined = nullptr;
  try {
    joined = &ranks::join_ranks(place, all);
    const int code = work(*joined);
    joined->leave("");
    return code;
  } catch (const std::exception& error) {
    complain(message_of(error));
    if (joined) joined->leave(message_of(error));
  }
  std::fflush(nullptr);
  ::_exit(1);  // threads of Gloo may still wait for a rank that is lost
}

}  // namespace

const char* const training_together =
    "Number of processes on this machine that train together. On several machines start each "
    "with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, as torchrun does";

void add_process_options(CLI::App& verb, ProcessOptions& options, const std::string& what) {
  verb.add_option("--processes", options.processes, what)
      ->check(whole_number(1, 1024))
      ->default_str("1");
  verb.add_option("--timeout", options.timeout,
                  "Longest time to wait for another process, in "
                  "seconds")
      ->capture_default_str()
      ->check(number_between(1, 86400));
}

void remember_arguments(char** argv) { arguments = argv; }

bool is_rank() { return ranks::place_from(std::getenv).has_value(); }

int processes_asked_for(const ProcessOptions& options) {
  const std::optional<Place> place = place_here(options);
  return place ? place->size : options.processes.value_or(0);
}

int processes_here(const ProcessOptions& options, int processes) {
  if (!place_here(options)) return processes;
  const char* here = std::getenv("LOCAL_WORLD_SIZE");  // as torchrun sets it
  return here ? std::clamp(std::atoi(here), 1, processes) : 1;
}

void require_for_all(const std::string& option, const std::string& path) {
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  if (type == std::filesystem::file_type::fifo || type == std::filesystem::file_type::character)
    throw std::invalid_argument(fmt::format(
        "{}: expected a file that each of the processes can read, found {}, a pipe", option, path));
}

int run_in_ranks(const ProcessOptions& options, int processes, const nlohmann::json& about,
                 const RankWork& work) {
  const std::optional<Place> place = place_here(options);
  if (place && place->size > 1) return be_rank(*place, about, work);
  if (place || processes <= 1) return work(ranks::this_process());
  const int code = ranks::launch(
      {arguments, processes, timeout_of(options), stop_on_signals, interrupted(), complain});
  return interrupted() && code != 0 ? interrupted_code() : code;
}

}  // namespace orthobatch::cli
