#include "ranks/meeting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "io/json.h"
#include "nn/message.h"

namespace orthobatch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds beat_time(1000), silence(2500), store_patience(5000), goodbye(10'000),
    reading(1000), look_again(20);

constexpr const char *verdict_key = "verdict", *stop_key = "stop", *left_key = "left",
                     *size_key = "size";

std::string key_of(const std::string& what, int rank) { return fmt::format("{}/{}", what, rank); }

double seconds(milliseconds t) { return std::chrono::duration<double>(t).count(); }

std::string process_text() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("{}, process {}", host, ::getpid());
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

Store store_for(const Place& place) {
  const bool keeps = place.keeps_store && place.rank == 0;
  Store store = keeps ? Store::keep(place.address, place.port, place.timeout)
                      : Store::connect(place.address, place.port, place.timeout);
  return place.prefix.empty() ? store : store.below(place.prefix);
}

}  // namespace

Verdict tell_verdict(Store& store, const Verdict& verdict) {
  const nlohmann::json said = {{"rank", verdict.rank}, {"text", verdict.text}};
  const nlohmann::json first = parse_json(store.set_first(verdict_key, said.dump()), verdict_key);
  return {first.at("rank").get<int>(), first.at("text").get<std::string>()};
}

std::optional<Verdict> look_for_verdict(Store& store) {
  const auto said = store.look(verdict_key);
  if (!said) return std::nullopt;
  const nlohmann::json first = parse_json(*said, verdict_key);
  return Verdict{first.at("rank").get<int>(), first.at("text").get<std::string>()};
}

void ask_to_stop(Store& store) { store.set(stop_key, "1"); }

Meeting::Meeting(const Place& place) : place_(place), store_(store_for(place)) {
  claim();
  beats_ = std::thread([this] { beat(); });
}

Meeting::~Meeting() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  beats_.join();
  try {
    store_.add(left_key, 1);
  } catch (const std::exception&) {
    // Whoever kept the store has left: so do we.
  }
  see_off();
}

void Meeting::see_off() {
  if (!place_.keeps_store || place_.rank != 0) return;  // its own store is always there
  const auto start = Clock::now();
  while (store_.add(left_key, 0) < place_.size) {
    if (Clock::now() - start > (look_for_verdict(store_) ? reading : goodbye)) return;
    std::this_thread::sleep_for(look_again);
  }
}

/// Takes this rank's place, once, among as many as rank 0 counts.
void Meeting::claim() {
  store_.set(key_of("who", place_.rank), process_text());
  const std::string size = store_.set_first(size_key, std::to_string(place_.size));
  Verdict problem{place_.rank, ""};
  if (size != std::to_string(place_.size))
    problem.text = fmt::format("{} has WORLD_SIZE {}, another rank {}", name_of(place_.rank),
                               place_.size, size);
  else if (store_.add(key_of("place", place_.rank), 1) > 1)
    problem.text =
        fmt::format("two processes have RANK {}: {} is one of them", place_.rank, process_text());
  if (!problem.text.empty()) throw RankError(tell_verdict(store_, problem).text);
}

void Meeting::beat() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (int64_t number = 0; !ends_; ++number) {
    lock.unlock();
    try {
      store_.set(key_of("beat", place_.rank), fmt::format("{} {}", number, exchanges_.load()));
      if (store_.look(stop_key)) asked_to_stop_ = true;
    } catch (const std::exception&) {
      return;  // the next exchange of tensors finds out what that means
    }
    lock.lock();
    ended_.wait_for(lock, beat_time, [this] { return ends_; });
  }
}

std::string Meeting::name_of(int rank) {
  const auto who = store_.look(key_of("who", rank));
  return who ? fmt::format("rank {} ({})", rank, *who) : fmt::format("rank {}", rank);
}

void Meeting::wait(const std::function<bool()>& done, const std::function<std::string()>& late) {
  const auto until = Clock::now() + place_.timeout;
  while (!done()) {
    if (const auto verdict = look_for_verdict(store_)) throw RankError(verdict->text);
    if (Clock::now() > until) throw RankError(tell_verdict(store_, {-1, late()}).text);
    std::this_thread::sleep_for(look_again);
  }
}

/// Of the ranks that have not set a key.
std::string Meeting::absent(const std::string& keys) {
  std::vector<std::string> never, late;
  for (int r = 0; r < place_.size; ++r)
    if (!store_.look(key_of(keys, r)))
      (store_.look(key_of("who", r)) ? late : never).push_back(name_of(r));
  const auto list = [](const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
  };
  std::string text;
  if (!never.empty())
    text = fmt::format("{} never came: start it, with the same MASTER_ADDR and MASTER_PORT",
                       list(never));
  if (!late.empty()) text += (text.empty() ? "" : "; ") + list(late) + " came, and went no further";
  return fmt::format("waited {} s: {}", seconds(place_.timeout), text);
}

void Meeting::agree(const std::string& topic, const nlohmann::json& value) {
  const std::string keys = fmt::format("agreement {}", agreements_++);
  const std::string agreed = keys + "/all";
  store_.set(key_of(keys, place_.rank), value.dump());
  if (place_.rank == 0) {
    for (int r = 1; r < place_.size; ++r) {
      std::optional<std::string> other;
      wait([&] { return (other = store_.look(key_of(keys, r))).has_value(); },
           [&] { return absent(keys); });
      const std::string found = difference(value, parse_json(*other, topic));
      if (found.empty()) continue;
      const Verdict verdict{r, fmt::format("{}: {} differ: {}", name_of(r), topic, found)};
      throw RankError(tell_verdict(store_, verdict).text);
    }
    store_.set(agreed, "1");
  } else {
    wait([&] { return store_.look(agreed).has_value(); }, [&] { return absent(keys); });
  }
}

std::string Meeting::broadcast(const std::string& text) {
  const std::string key = fmt::format("text {}", broadcasts_++);
  if (place_.rank == 0) {
    store_.set(key, text);
    return text;
  }
  std::optional<std::string> out;
  wait([&] { return (out = store_.look(key)).has_value(); },
       [&] { return name_of(0) + " came, and went no further"; });
  return *out;
}

void Meeting::fail(const std::string& why) {
  try {
    tell_verdict(store_, {place_.rank, fmt::format("{} ended: {}", name_of(place_.rank), why)});
  } catch (const std::exception&) {
    // Then the others see that the connection is closed.
  }
}

/// What became of the others. Ranks that end for it tell the same.
std::string Meeting::find_out(const std::string& error, Store& store) {
  std::vector<std::string> before(place_.size), after(place_.size);
  const auto read = [&](std::vector<std::string>& beats) {
    for (int r = 0; r < place_.size; ++r) beats[r] = store.look(key_of("beat", r)).value_or("");
  };
  read(before);
  const auto until = Clock::now() + silence;
  while (Clock::now() < until) {
    if (const auto verdict = look_for_verdict(store)) return verdict->text;
    std::this_thread::sleep_for(look_again);
  }
  read(after);
  const auto exchanges = [&](int r) {
    return std::atoll(after[r].substr(std::min(after[r].find(' ') + 1, after[r].size())).c_str());
  };
  std::vector<std::string> silent, behind;
  int first = -1;
  for (int r = 0; r < place_.size; ++r) {
    if (r == place_.rank) continue;
    const bool still = before[r] == after[r];
    if (still) silent.push_back(name_of(r));
    if (!still && exchanges(r) < exchanges_) behind.push_back(name_of(r));
    if (still && first < 0) first = r;
  }
  Verdict verdict{first, ""};
  if (!silent.empty())
    verdict.text = fmt::format("{} {} not answer: killed, stopped, or cut off ({})",
                               fmt::join(silent, ", "), silent.size() == 1 ? "does" : "do", error);
  else if (!behind.empty())
    verdict.text = fmt::format("{} {} alive and does not go on ({})", fmt::join(behind, ", "),
                               behind.size() == 1 ? "is" : "are", error);
  else
    verdict.text =
        fmt::format("a connection between the ranks broke, and all of them live ({})", error);
  return tell_verdict(store, verdict).text;
}

void Meeting::lost(const std::string& error) {
  // On a thread of its own: a store on a host that is gone does not answer, and a call of it cannot
  // be ended.
  struct Answer {
    std::mutex mutex;
    std::condition_variable known;
    std::optional<std::string> text;
  };
  const auto answer = std::make_shared<Answer>();
  std::thread([this, error, answer, store = store_]() mutable {
    std::string text;
    try {
      text = find_out(error, store);
    } catch (const std::exception&) {
      text = fmt::format("lost the store at {}:{}, which {} ({})", place_.address, place_.port,
                         place_.keeps_store ? "rank 0 keeps" : "whoever started the ranks keeps",
                         error);
    }
    const std::lock_guard<std::mutex> lock(answer->mutex);
    answer->text = text;
    answer->known.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(answer->mutex);
  answer->known.wait_for(lock, silence + store_patience, [&] { return answer->text.has_value(); });
  throw RankError(answer->text.value_or(
      fmt::format("the store at {}:{}, which {}, does not answer: is that host up, and the network "
                  "between whole? ({})",
                  place_.address, place_.port,
                  place_.keeps_store ? "rank 0 keeps" : "whoever started the ranks keeps", error)));
}

}  // namespace orthobatch
