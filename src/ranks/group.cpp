#include <sched.h>
#include <torch/types.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/text.h"
#include "nn/message.h"
#include "ranks/address.h"
#include "ranks/meeting.h"
#include "ranks/ranks.h"
#include "ranks/store_impl.h"

namespace orthobatch {
namespace {

using Gloo = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
using Clock = std::chrono::steady_clock;

Gloo make_group(Meeting& meeting, const std::string& name) {
  const Place& place = meeting.place();
  auto options = c10d::ProcessGroupGloo::Options::create(place.timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(
      interface && *interface ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                              : c10d::ProcessGroupGloo::createDeviceForHostname(
                                    own_address(place.address, place.port)));
  auto store = c10::make_intrusive<c10d::PrefixStore>(name, meeting.store().impl().store);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.size, options);
}

/// What Gloo says, without the line of its source where it says it.
std::string plain_text(const std::exception& error) {
  const std::string text = first_line(message_of(error));
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

/// Two groups of Gloo, so that no layer's statistics wait behind the gradients that are under way.
class GlooRanks : public Ranks {
 public:
  GlooRanks(const Place& place, const nlohmann::json& about) : meeting_(place) {
    meeting_.agree("settings", about);
    or_lost([&] {
      statistics_ = std::make_shared<Statistics>(*this, make_group(meeting_, "statistics"));
      gradients_ = make_group(meeting_, "gradients");
    });
  }

  int rank() const override { return meeting_.place().rank; }
  int size() const override { return meeting_.place().size; }
  ProcessGroup statistics() override { return ProcessGroup(statistics_); }

  void agree(const std::string& topic, const nlohmann::json& value) override {
    meeting_.agree(topic, value);
  }
  std::string broadcast(const std::string& text) override { return meeting_.broadcast(text); }

  void share(const std::vector<at::Tensor>& tensors) override {
    int64_t size = 0;
    for (const at::Tensor& t : tensors) size += static_cast<int64_t>(t.nbytes());
    at::Tensor packed = torch::empty({size}, torch::kByte);
    const auto each = [&](const auto& copy) {
      uint8_t* at = packed.data_ptr<uint8_t>();
      for (const at::Tensor& t : tensors) {
        TORCH_CHECK(t.is_non_overlapping_and_dense(), "expected a dense tensor to share");
        copy(at, static_cast<uint8_t*>(t.data_ptr()), t.nbytes());
        at += t.nbytes();
      }
    };
    if (leads())
      each([](uint8_t* at, const uint8_t* of, size_t bytes) { std::memcpy(at, of, bytes); });
    or_lost([&] {
      std::vector<at::Tensor> one = {packed};
      wait_for(*gradients_->broadcast(one));
    });
    if (!leads())
      each([](const uint8_t* at, uint8_t* of, size_t bytes) { std::memcpy(of, at, bytes); });
  }

  std::function<void()> begin_sum(at::Tensor t) override { return begin_sum(gradients_, t); }

  void fail(const std::string& why) override {
    meeting_.fail(why);
    abandon();
  }
  void see_off() override { meeting_.see_off(); }
  bool asked_to_stop() const override { return meeting_.asked_to_stop(); }
  double seconds_waited() const override { return seconds_; }

 private:
  class Statistics : public Collectives {
   public:
    Statistics(GlooRanks& ranks, Gloo group) : gloo(std::move(group)), ranks_(ranks) {}
    int64_t rank() const override { return ranks_.rank(); }
    int64_t size() const override { return ranks_.size(); }
    std::vector<at::Tensor> gather(const at::Tensor& t) override {
      std::vector<std::vector<at::Tensor>> out(1);
      for (int64_t k = 0; k < size(); ++k) out[0].push_back(at::empty_like(t));
      std::vector<at::Tensor> in = {t};
      ranks_.or_lost([&] { wait_for(*gloo->allgather(out, in)); });
      return out[0];
    }
    void sum(at::Tensor& t) override { begin_sum(t)(); }
    std::function<void()> begin_sum(at::Tensor t) override { return ranks_.begin_sum(gloo, t); }
    const Gloo gloo;

   private:
    GlooRanks& ranks_;
  };

  std::function<void()> begin_sum(const Gloo& group, const at::Tensor& t) {
    c10::intrusive_ptr<c10d::Work> work;
    or_lost([&] {
      std::vector<at::Tensor> one = {t};
      work = group->allreduce(one);
    });
    return [this, work, t] { or_lost([&] { wait_for(*work); }); };
  }

  /// An exchange; its time is counted, and what makes it fail is looked for.
  template <typename Exchange>
  void or_lost(const Exchange& exchange) {
    const auto start = Clock::now();
    try {
      exchange();
      meeting_.count();
      seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    } catch (const RankError&) {
      throw;
    } catch (const std::exception& error) {
      abandon();
      meeting_.lost(plain_text(error));
    }
  }

  /// Groups that lost a rank are not taken down: that would wait for it.
  void abandon() {
    if (statistics_) new Gloo(statistics_->gloo);
    if (gradients_) new Gloo(gradients_);
  }

  Meeting meeting_;
  std::shared_ptr<Statistics> statistics_;
  Gloo gradients_;
  double seconds_ = 0;
};

}  // namespace

Ranks& this_process() {
  static Ranks alone;
  return alone;
}

std::unique_ptr<Ranks> join_ranks(const Place& place, const nlohmann::json& about) {
  return std::make_unique<GlooRanks>(place, about);
}

}  // namespace orthobatch
