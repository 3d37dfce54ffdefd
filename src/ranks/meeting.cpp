#include "ranks/meeting.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>
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

constexpr milliseconds longest_patience(5000), look_again(20);
constexpr const char *end_key = "end", *entered_key = "entered", *left_key = "left";

std::string key_of(const std::string& what, int rank) { return fmt::format("{}/{}", what, rank); }

std::string seconds_text(milliseconds t) {
  return fmt::format("{} s", std::chrono::duration<double>(t).count());
}

/// Throws RankError after the patience. The call goes on then, so it must own all it uses: one to a
/// host that is cut off cannot be ended.
template <typename Call>
auto within(milliseconds patience, Call call) {
  const auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
  auto result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  if (result.wait_for(patience) != std::future_status::ready)
    throw RankError("no answer within " + seconds_text(patience));
  return result.get();
}

std::string process_text(const Place& place) {
  char host[256] = "";
  if (place.file.empty()) ::gethostname(host, sizeof host - 1);
  return fmt::format("{}{}process {}", host, *host ? ", " : "", ::getpid());
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

StorePointer tcp_store(const Place& place, bool serve) {
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

}  // namespace

StorePointer open_store(const Place& place, bool serve) {
  try {
    StorePointer store;
    if (!place.file.empty())
      store = c10::make_intrusive<c10d::FileStore>(place.file, place.size);
    else
      store = within(place.timeout + longest_patience, [=] { return tcp_store(place, serve); });
    store->setTimeout(place.timeout);
    return store;
  } catch (const std::exception& error) {
    const std::string why = first_line(message_of(error));
    if (serve)
      throw RankError(
          fmt::format("cannot open the store at {}:{}: expected MASTER_ADDR to be an address of "
                      "this host, and MASTER_PORT a free port ({})",
                      place.address, place.port, why));
    throw RankError(
        fmt::format("no store at {}:{} within {}: was rank 0 started, and are MASTER_ADDR and "
                    "MASTER_PORT the same there? ({})",
                    place.address, place.port, seconds_text(place.timeout), why));
  }
}

Meeting::Meeting(const Place& place)
    : place_(place),
      patience_(std::min(place.timeout, longest_patience)),
      store_(*new StorePointer(open_store(place, place.keeps_store()))),
      names_(place.size) {}

/// The store's answer to a call.
template <typename Call>
auto Meeting::ask(Call call) {
  try {
    if (store_gone_) throw RankError("no answer before");
    return within(patience_, [store = store_, call] { return call(*store); });
  } catch (const std::exception& error) {
    store_gone_ = true;
    throw RankError(store_lost(first_line(message_of(error))));
  }
}

void Meeting::set(const std::string& key, const std::string& text) {
  ask([=](c10d::Store& store) { store.set(key, std::vector<uint8_t>(text.begin(), text.end())); });
}

int64_t Meeting::add(const std::string& key, int64_t more) {
  return ask([=](c10d::Store& store) { return store.add(key, more); });
}

bool Meeting::check(const std::vector<std::string>& keys) {
  return ask([=](c10d::Store& store) { return store.check(keys); });
}

std::optional<std::string> Meeting::look(const std::string& key) {
  return ask([=](c10d::Store& store) -> std::optional<std::string> {
    if (!store.check({key})) return std::nullopt;
    const std::vector<uint8_t> bytes = store.get(key);
    return std::string(bytes.begin(), bytes.end());
  });
}

std::vector<std::string> Meeting::keys_of(const std::string& what) const {
  std::vector<std::string> out;
  for (int r = 0; r < place_.size; ++r) out.push_back(key_of(what, r));
  return out;
}

std::string Meeting::name_of(int rank) {
  if (names_[rank].empty()) names_[rank] = look(key_of("who", rank)).value_or("");
  return names_[rank].empty() ? fmt::format("rank {}", rank)
                              : fmt::format("rank {} ({})", rank, names_[rank]);
}

std::string Meeting::store_lost(const std::string& error) const {
  std::string keeper = "the store of the run";
  if (place_.has_agent)
    keeper = fmt::format("torchrun's agent at {}:{}", place_.address, place_.port);
  else if (place_.file.empty())
    keeper = names_[0].empty() ? fmt::format("rank 0 ({}:{})", place_.address, place_.port)
                               : fmt::format("rank 0 ({})", names_[0]);
  return fmt::format(
      "{} does not answer: killed, stopped, or cut off. See its own output, then start all ranks "
      "again ({})",
      keeper, error);
}

void Meeting::enter() {
  const std::string own = process_text(place_);
  add(entered_key, 1);
  if (add(key_of("place", place_.rank), 1) > 1)
    throw RankError(
        tell(fmt::format("two processes have RANK {}: {} is one of them", place_.rank, own)));
  set(key_of("who", place_.rank), own);
}

bool Meeting::wait(const std::function<bool()>& done) {
  const auto until = Clock::now() + place_.timeout;
  while (!done()) {
    if (const auto why = look(end_key)) throw RankError(*why);
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(look_again);
  }
  return true;
}

/// Names of the ranks that have not set their key.
std::string Meeting::names_without(const std::string& what) {
  std::string out;
  for (int r = 0; r < place_.size; ++r)
    if (!check({key_of(what, r)})) out += (out.empty() ? "" : ", ") + name_of(r);
  return out;
}

/// Of the ranks that have not set their key.
std::string Meeting::absent(const std::string& what) {
  const std::string never = names_without("who");
  if (!never.empty())
    return fmt::format(
        "{} did not connect within {}: start every rank with the same MASTER_ADDR "
        "and MASTER_PORT",
        never, seconds_text(place_.timeout));
  return fmt::format("{} connected but did not go on within {}", names_without(what),
                     seconds_text(place_.timeout));
}

void Meeting::agree(const std::string& topic, const nlohmann::json& value) {
  const std::string what = fmt::format("agreement {}", agreements_++);
  const std::string leaders = key_of(what, 0);
  if (place_.rank == 0) {
    set(leaders, value.dump());
  } else {
    if (!wait([&] { return check({leaders}); })) throw RankError(tell(absent(what)));
    const std::string found = difference(parse_json(*look(leaders), topic), value);
    if (!found.empty())
      throw RankError(tell(fmt::format("{}: {} differ: {}", name_of(place_.rank), topic, found)));
    set(key_of(what, place_.rank), "agrees");
  }
  if (!wait([&] { return check(keys_of(what)); })) throw RankError(tell(absent(what)));
  name_of(0);  // for when the store is gone
}

std::string Meeting::broadcast(const std::string& text) {
  const std::string key = fmt::format("text {}", broadcasts_++);
  if (place_.rank == 0) {
    set(key, text);
    return text;
  }
  if (!wait([&] { return check({key}); }))
    throw RankError(tell(fmt::format("{} connected but did not go on within {}", name_of(0),
                                     seconds_text(place_.timeout))));
  return *look(key);
}

void Meeting::lost(const std::string& error) {
  // A roll call: whoever lives fails in the same exchange.
  const std::string what = "lost";
  set(key_of(what, place_.rank), "1");
  const auto until = Clock::now() + patience_;
  while (!check(keys_of(what)) && Clock::now() < until) {
    if (const auto why = look(end_key)) throw RankError(*why);
    std::this_thread::sleep_for(look_again);
  }
  const std::string silent = names_without(what);
  throw RankError(tell(
      silent.empty()
          ? fmt::format("a connection between the ranks broke, and all of them live ({})", error)
          : fmt::format("no answer from {}: killed, stopped, or cut off ({})", silent, error)));
}

std::string Meeting::tell(const std::string& why) noexcept {
  try {
    if (const auto first = look(end_key)) return *first;
    set(end_key, why);
  } catch (const std::exception&) {
    // The others see that the connection is closed.
  }
  return why;
}

void Meeting::leave(const std::string& error) noexcept {
  try {
    if (!error.empty()) tell(fmt::format("{} ended: {}", name_of(place_.rank), error));
    add(left_key, 1);
    const auto until = Clock::now() + patience_;
    while (place_.keeps_store() && add(left_key, 0) < add(entered_key, 0) && Clock::now() < until)
      std::this_thread::sleep_for(look_again);
  } catch (const std::exception&) {
    // Whoever kept the store has left.
  }
}

}  // namespace orthobatch::ranks
