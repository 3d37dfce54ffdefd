#include "ranks/meeting.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/text.h"
#include "io/json.h"
#include "nn/message.h"

namespace orthobatch::ranks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds patience(5000), look_again(20);
constexpr const char* end_key = "end";

std::string key_of(const std::string& what, int rank) { return fmt::format("{}/{}", what, rank); }

std::string seconds_text(milliseconds t) {
  return fmt::format("{} s", std::chrono::duration<double>(t).count());
}

/// All ranks end, for a reason that is known.
struct Told : RankError {
  using RankError::RankError;
};

/// Throws RankError after the timeout, and as soon as there is a notice.
template <typename Call>
auto within(milliseconds timeout, const std::string& notice, Call call) {
  auto result = begin(std::move(call));
  const auto until = Clock::now() + timeout;
  while (result.wait_for(look_again) != std::future_status::ready) {
    if (const auto why = read_notice(notice)) throw Told(*why);
    if (Clock::now() > until) throw RankError("no answer within " + seconds_text(timeout));
  }
  return result.get();
}

/// The first member in which they differ; empty: none.
std::string difference(const nlohmann::json& expected, const nlohmann::json& found) {
  const nlohmann::json a = expected.flatten(), b = found.flatten();
  const auto text = [](const nlohmann::json& j, const std::string& key) {
    return j.contains(key) ? j.at(key).dump() : "nothing";
  };
  for (const nlohmann::json* side : {&a, &b})
    for (const auto& [key, value] : side->items())
      if (text(a, key) != text(b, key)) {
        std::string name = key.substr(std::min<size_t>(1, key.size()));
        std::replace(name.begin(), name.end(), '/', '.');
        return fmt::format("{}: expected {} as rank 0 has, found {}", name, text(a, key),
                           text(b, key));
      }
  return "";
}

/// LibTorch 2 would use libuv, which Debian's is built without; 1.13 has no such option.
template <typename Options>
auto without_libuv(Options& options, int) -> decltype(options.useLibUV = false, void()) {
  options.useLibUV = false;
}
template <typename Options>
void without_libuv(Options&, long) {}

StorePointer make_store(const Place& place, bool serve) {
  if (place.port == 0) return c10::make_intrusive<c10d::FileStore>(place.address, place.size);
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.port);
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = place.timeout;
  without_libuv(options, 0);
  const auto store = c10::make_intrusive<c10d::TCPStore>(place.address, options);
  if (place.prefix.empty()) return store;
  return c10::make_intrusive<c10d::PrefixStore>(place.prefix, store);
}

std::string keeper_of(const Place& place) {
  if (place.port == 0) return "the store of the ranks";
  return fmt::format("{} ({}:{})", place.has_launcher ? "torchrun's agent" : "rank 0",
                     place.address, place.port);
}

}  // namespace

void post_notice(const std::string& path, const std::string& why) {
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  if (::write(file, why.c_str(), why.size() + 1) < 0) {  // with its end, at which reading stops
    // The others end when the connections do.
  }
  ::close(file);
}

std::optional<std::string> read_notice(const std::string& path) {
  std::string text;
  std::ifstream file(path);
  if (!std::getline(file, text, '\0')) return std::nullopt;
  return text;
}

StorePointer open_store(const Place& place, bool serve) {
  try {
    const auto store =
        within(place.timeout + patience, place.notice, [=] { return make_store(place, serve); });
    store->setTimeout(place.timeout);
    return store;
  } catch (const Told&) {
    throw;
  } catch (const std::exception& error) {
    throw RankError(
        fmt::format("no store at {}:{}: expected rank 0 to run there, and MASTER_PORT to be a port "
                    "that nothing else uses ({})",
                    place.address, place.port, base::first_line(message_of(error))));
  }
}

Meeting::Meeting(const Place& at)
    : place(at), store_(*new StorePointer(open_store(at, at.keeps_store()))) {}

template <typename Call>
auto Meeting::ask(Call call) {
  try {
    if (store_gone_) throw RankError("no answer before");
    return within(std::min(place.timeout, patience), place.notice,
                  [store = store_, call] { return call(*store); });
  } catch (const Told&) {
    throw;
  } catch (const std::exception& error) {
    store_gone_ = true;
    throw RankError(fmt::format(
        "no answer from {}: killed, stopped, or cut off. See its own output, then start all ranks "
        "again ({})",
        keeper_of(place), base::first_line(message_of(error))));
  }
}

void Meeting::set(const std::string& key, const std::string& text) {
  ask([=](c10d::Store& s) { s.set(key, std::vector<uint8_t>(text.begin(), text.end())); });
}

std::optional<std::string> Meeting::look(const std::string& key) {
  return ask([=](c10d::Store& store) -> std::optional<std::string> {
    if (!store.check({key})) return std::nullopt;
    const std::vector<uint8_t> bytes = store.get(key);
    return std::string(bytes.begin(), bytes.end());
  });
}

/// Whether the first `count` ranks have set their key.
bool Meeting::all_have(const std::string& what, int count) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < count; ++rank) keys.push_back(key_of(what, rank));
  return ask([=](c10d::Store& store) { return store.check(keys); });
}

std::string Meeting::names_without(const std::string& what, int count) {
  std::string out;
  for (int rank = 0; rank < count; ++rank) {
    if (look(key_of(what, rank))) continue;
    const std::string who =
        look(key_of("who", rank))
            .value_or("not started, or with another MASTER_ADDR or MASTER_PORT");
    out += fmt::format("{}rank {} ({})", out.empty() ? "" : ", ", rank, who);
  }
  return out;
}

void Meeting::enter() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string who = fmt::format("{}, process {}", host, ::getpid());
  const std::string key = key_of("place", place.rank);
  if (ask([=](c10d::Store& store) { return store.add(key, 1); }) > 1)
    throw RankError(
        tell(fmt::format("two processes have RANK {}: {} is one of them", place.rank, who)));
  set(key_of("who", place.rank), who);
}

bool Meeting::wait(milliseconds timeout, const std::function<bool()>& done) {
  const auto until = Clock::now() + timeout;
  while (!done()) {
    if (const auto why = end_reason()) throw RankError(*why);
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(look_again);
  }
  return true;
}

void Meeting::wait_for(const std::string& what, int count) {
  if (wait(place.timeout, [&] { return all_have(what, count); })) return;
  throw RankError(tell(fmt::format("no answer within {} from {}", seconds_text(place.timeout),
                                   names_without(what, count))));
}

void Meeting::agree(const std::string& topic, const nlohmann::json& value) {
  const std::string leaders = broadcast(value.dump());
  const std::string found = difference(io::parse_json(leaders, topic), value);
  if (!found.empty())
    throw RankError(tell(fmt::format("rank {}: {} differ: {}", place.rank, topic, found)));
  const std::string what = fmt::format("agreement {}", topics_);
  set(key_of(what, place.rank), "1");
  wait_for(what, place.size);
}

std::string Meeting::broadcast(const std::string& text) {
  const std::string what = fmt::format("text {}", ++topics_);
  if (place.rank == 0) set(key_of(what, 0), text);
  wait_for(what, 1);
  return *look(key_of(what, 0));
}

void Meeting::lost(const std::string& error) {
  // A roll call: every rank that lives fails in the same exchange.
  set(key_of("lost", place.rank), "1");
  if (wait(std::min(place.timeout, patience), [&] { return all_have("lost", place.size); }))
    throw RankError(tell(fmt::format("a connection between the ranks broke ({})", error)));
  throw RankError(tell(fmt::format("no answer from {}: killed, stopped, or cut off ({})",
                                   names_without("lost", place.size), error)));
}

std::optional<std::string> Meeting::end_reason() {
  return place.notice.empty() ? look(end_key) : read_notice(place.notice);
}

std::string Meeting::tell(const std::string& why) noexcept {
  try {
    if (const auto first = end_reason()) return *first;
    if (place.notice.empty())
      set(end_key, why);
    else
      post_notice(place.notice, why);
  } catch (const std::exception&) {
    // The others see that the connection is closed.
  }
  return why;
}

}  // namespace orthobatch::ranks
