#include <c10/util/Logging.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <torch/types.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/text.h"
#include "nn/message.h"
#include "ranks/meeting.h"

namespace orthobatch::ranks {
namespace {

using Gloo = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using Clock = std::chrono::steady_clock;

using namespace std::chrono_literals;

constexpr auto time_to_read = 1s;   // why a rank ended, from its store
constexpr auto time_to_fail = 24h;  // for a call to a store that is gone

/// The address, as numbers, under which this host is seen from there. (c10d would take that of the
/// host's name, which on Debian is 127.0.1.1.)
std::string own_address(const std::string& towards, int port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  std::string out;
  if (::getaddrinfo(towards.c_str(), std::to_string(port).c_str(), &hints, &list) == 0) {
    for (const addrinfo* to = list; to && out.empty(); to = to->ai_next) {
      sockaddr_storage own{};
      auto* address = reinterpret_cast<sockaddr*>(&own);
      socklen_t size = sizeof own;
      char text[NI_MAXHOST];
      // Connecting a datagram socket sends nothing: it only chooses the interface.
      const int socket = ::socket(to->ai_family, to->ai_socktype, 0);
      if (::connect(socket, to->ai_addr, to->ai_addrlen) == 0 &&
          ::getsockname(socket, address, &size) == 0 &&
          ::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
        out = text;
      ::close(socket);
    }
    ::freeaddrinfo(list);
  }
  if (out.empty()) throw RankError(fmt::format("no route from this host to {}", towards));
  return out;
}

/// A stream without the line that Gloo, from 2025 on, writes for each connection.
class WithoutConnections : public std::streambuf {
 public:
  explicit WithoutConnections(std::streambuf* target) : target_(target) {}

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::string_view line(text, static_cast<size_t>(size));
    const bool connection = line.find("/gloo/") != line.npos && line.find("] INFO ") != line.npos;
    return connection ? size : target_->sputn(text, size);
  }
  int overflow(int c) override {
    return c == traits_type::eof() ? traits_type::not_eof(c)
                                   : target_->sputc(static_cast<char>(c));
  }
  int sync() override { return target_->pubsync(); }

 private:
  std::streambuf* target_;
};

/// Once for the process.
void prepare_for_gloo() {
  static const bool done = [] {
    std::signal(SIGPIPE, SIG_IGN);  // a rank that is gone is an error, not the end of this one
    std::cerr.rdbuf(new WithoutConnections(std::cerr.rdbuf()));  // std::cerr outlives all else
    return true;
  }();
  static_cast<void>(done);
}

Gloo make_group(const Place& place, const StorePointer& store, const std::string& name) {
  using c10d::ProcessGroupGloo;
  prepare_for_gloo();
  auto options = ProcessGroupGloo::Options::create(place.timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface && *interface)
    options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(interface));
  else
    options->devices.push_back(ProcessGroupGloo::createDeviceForHostname(
        place.port == 0 ? "127.0.0.1" : own_address(place.address, place.port)));
  return c10::make_intrusive<ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(name, store),
                                               place.rank, place.size, options);
}

/// What Gloo says, without the line of its source where it says it.
std::string plain_text(const std::exception& error) {
  const std::string text = base::first_line(message_of(error));
  const size_t end = text.find("] ");
  return text[0] == '[' && end != std::string::npos ? text.substr(end + 2) : text;
}

/// For a while without sleep: an exchange takes less time than a core does to wake up. Gloo's
/// threads, which may need this core, go first.
void wait_for(c10d::Work& work) {
  const auto until = Clock::now() + std::chrono::milliseconds(5);
  while (!work.isCompleted() && Clock::now() < until) ::sched_yield();
  work.wait();
}

/// A group of Gloo's whose errors name the rank that is lost.
class Group : public Collectives {
 public:
  Group(Gloo gloo, Meeting& meeting, double& seconds)
      : gloo_(std::move(gloo)), meeting_(meeting), seconds_(seconds) {}

  int64_t rank() const override { return gloo_->getRank(); }
  int64_t size() const override { return gloo_->getSize(); }

  std::vector<at::Tensor> gather(const at::Tensor& t) override {
    std::vector<std::vector<at::Tensor>> out(1);
    for (int64_t k = 0; k < size(); ++k) out[0].push_back(at::empty_like(t));
    std::vector<at::Tensor> in = {t};
    begin([&] { return gloo_->allgather(out, in); })();
    return out[0];
  }
  void sum(at::Tensor& t) override { begin_sum(t)(); }
  std::function<void()> begin_sum(at::Tensor t) override {
    std::vector<at::Tensor> one = {t};
    return begin([&] { return gloo_->allreduce(one); });
  }
  std::function<void()> begin_share(const at::Tensor& t) {
    TORCH_CHECK(t.is_non_overlapping_and_dense(), "expected a dense tensor to share");
    std::vector<at::Tensor> one = {t};
    return begin([&] { return gloo_->broadcast(one); });
  }

 private:
  /// Returns what waits for the exchange.
  template <typename Exchange>
  std::function<void()> begin(const Exchange& exchange) {
    c10::intrusive_ptr<c10d::Work> work;
    or_lost([&] { work = exchange(); });
    return [this, work] { or_lost([&] { wait_for(*work); }); };
  }

  template <typename Part>
  void or_lost(const Part& part) {
    const auto start = Clock::now();
    try {
      part();
    } catch (const std::exception& error) {
      meeting_.lost(plain_text(error));
    }
    seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }

  const Gloo gloo_;
  Meeting& meeting_;
  double& seconds_;
};

/// Two groups, so that no layer's statistics wait behind the gradients that are under way.
class GlooRanks : public Ranks {
 public:
  explicit GlooRanks(const Place& place) : meeting_(place) {}

  void meet(nlohmann::json about) {
    about["WORLD_SIZE"] = size();
    meeting_.enter();
    // Tensors of different size would end the process in a thread of Gloo's.
    meeting_.agree("settings", about);
    // Over a store of its own: Gloo waits there for a rank that does not come.
    auto groups = begin([place = meeting_.place] {
      const StorePointer store = open_store(place, /*serve=*/false);
      return std::array{make_group(place, store, "statistics"),
                        make_group(place, store, "gradients")};
    });
    const auto done = [&] { return groups.wait_for(0s) == std::future_status::ready; };
    try {
      if (!meeting_.wait(meeting_.place.timeout, done)) meeting_.lost("Gloo did not connect");
      const auto [statistics, gradients] = groups.get();
      statistics_ = std::make_shared<Group>(statistics, meeting_, seconds_);
      gradients_ = std::make_shared<Group>(gradients, meeting_, seconds_);
    } catch (const RankError&) {
      throw;
    } catch (const std::exception& error) {
      meeting_.lost(plain_text(error));
    }
  }

  int rank() const override { return meeting_.place.rank; }
  int size() const override { return meeting_.place.size; }
  ProcessGroup statistics() override { return ProcessGroup(statistics_); }
  double seconds_waited() const override { return seconds_; }

  void agree(const std::string& topic, const nlohmann::json& value) override {
    meeting_.agree(topic, value);
  }
  std::string broadcast(const std::string& text) override { return meeting_.broadcast(text); }
  std::function<void()> begin_sum(at::Tensor t) override { return gradients_->begin_sum(t); }
  void share(const std::vector<at::Tensor>& tensors) override {
    std::vector<std::function<void()>> begun;
    for (const at::Tensor& t : tensors) begun.push_back(gradients_->begin_share(t));
    for (const auto& finish : begun) finish();
  }

  void leave(const std::string& error) override {
    if (error.empty()) return sum(torch::zeros({1}));
    meeting_.tell(fmt::format("rank {} ended: {}", rank(), error));
    if (meeting_.place.keeps_store()) std::this_thread::sleep_for(time_to_read);
  }

 private:
  Meeting meeting_;
  double seconds_ = 0;
  std::shared_ptr<Group> statistics_, gradients_;
};

/// LibTorch 1.13 has a thread beside the store's client that throws where the connection is reset,
/// which would end the process before the caller of the store can say which rank is lost.
void survive_threads_of_the_store() {
  static const std::terminate_handler usual = std::set_terminate([] {
    try {
      if (const auto error = std::current_exception()) std::rethrow_exception(error);
    } catch (const std::system_error&) {
      if (::gettid() != ::getpid()) std::this_thread::sleep_for(time_to_fail);
    } catch (...) {
      // As usual.
    }
    usual();
  });
}

}  // namespace

Ranks& this_process() {
  static Ranks alone;
  return alone;
}

Ranks& join_ranks(const Place& place, const nlohmann::json& about) {
  // c10d logs each attempt to connect and each error, which we tell ourselves.
  ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", 0);
  c10::initLogging();
  survive_threads_of_the_store();
  static auto* joined = new GlooRanks(place);
  try {
    joined->meet(about);
  } catch (const std::exception& error) {
    joined->leave(message_of(error));
    throw;
  }
  return *joined;
}

}  // namespace orthobatch::ranks
