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
#include "ranks/launcher.h"
#include "ranks/ranks.h"

namespace orthobatch::cli {
namespace {

char** arguments = nullptr;

std::optional<Place> place_here(const ProcessOptions& options) {
  std::optional<Place> place = place_from(std::getenv);
  if (!place) return place;
  if (options.processes && *options.processes != place->size)
    throw std::invalid_argument(
        fmt::format("--processes: expected WORLD_SIZE, {}, or none, found {}", place->size,
                    *options.processes));
  place->timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * options.timeout));
  return place;
}

/// Without taking down what waits for others.
[[noreturn]] void leave(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

int be_rank(const Place& place, const nlohmann::json& about,
            const std::function<int(Ranks&)>& work) {
  complain_as(fmt::format("rank {}: ", place.rank));
  nlohmann::json all = {{"version", ORTHOBATCH_VERSION}, {"LibTorch", TORCH_VERSION}};
  all.update(about);
  std::unique_ptr<Ranks> ranks;
  try {
    ranks = join_ranks(place, all);
    return work(*ranks);
  } catch (const RankError& error) {
    complain(error.what());
  } catch (const std::exception& error) {
    const std::string why = message_of(error);
    if (ranks) ranks->fail(why);
    complain(why);
  }
  if (ranks) ranks->see_off();
  leave(1);
}

}  // namespace

const char* const training_together =
    "That train together on this machine. On several machines each is started with RANK, "
    "WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, as torchrun does";

void add_process_options(CLI::App& verb, ProcessOptions& options, const std::string& what) {
  verb.add_option("--processes", options.processes, what)
      ->check(whole_number(1, 1024))
      ->default_str("1");
  verb.add_option("--timeout", options.timeout, "Seconds that processes wait for each other")
      ->capture_default_str()
      ->check(number_between(1, 86400));
}

void remember_arguments(char** argv) { arguments = argv; }

bool is_rank() { return place_from(std::getenv).has_value(); }

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
                 const std::function<int(Ranks&)>& work) {
  const std::optional<Place> place = place_here(options);
  if (place && place->size > 1) return be_rank(*place, about, work);
  if (place || processes <= 1) return work(this_process());
  stop_on_signals();
  const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(1000 * options.timeout));
  const int code = launch({arguments, processes, timeout, interrupted(), complain});
  return interrupted() && code != 0 ? interrupted_code() : code;
}

}  // namespace orthobatch::cli
