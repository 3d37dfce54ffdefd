#include <fmt/core.h>
#include <torch/types.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/text.h"
#include "nn/message.h"
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
      interface && *interface
          ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
          : c10d::ProcessGroupGloo::createDeviceForHostname(own_address(place.address, place.port)));
  auto store = c10::make_intrusive<c10d::PrefixStore>(name, meeting.store().impl().store);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.size, options);
}

/// Two groups of Gloo, so that no layer's statistics wait behind the gradients that are under way.
class GlooRanks : public Ranks {
 public:
  GlooRanks(const Place& place, const nlohmann::json& about) : meeting_(place) {
    meeting_.agree("start", about);
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
      gradients_->broadcast(one)->wait();
    });
    if (!leads())
      each([](const uint8_t* at, uint8_t* of, size_t bytes) { std::memcpy(of, at, bytes); });
  }

  std::function<void()> begin_sum(at::Tensor t) override {
    return or_lost([&]() -> std::function<void()> {
      std::vector<at::Tensor> one = {t};
      auto work = gradients_->allreduce(one);
      return [this, work, t] { or_lost([&] { work->wait(); }); };
    });
  }

  void fail(const std::string& why) override {
    meeting_.fail(why);
    abandon();
  }
  bool asked_to_stop() const override { return meeting_.asked_to_stop(); }
  double seconds_waited() const override { return seconds_; }

 private:
  class Statistics : public Collectives {
   public:
    Statistics(GlooRanks& ranks, Gloo group)
        : gloo(std::move(group)), ranks_(ranks), group_(gloo) {}
    int64_t rank() const override { return ranks_.rank(); }
    int64_t size() const override { return ranks_.size(); }
    std::vector<at::Tensor> gather(const at::Tensor& t) override {
      return ranks_.or_lost([&] { return group_->gather(t); });
    }
    void sum(at::Tensor& t) override {
      ranks_.or_lost([&] { group_->sum(t); });
    }
    const Gloo gloo;

   private:
    GlooRanks& ranks_;
    ProcessGroup group_;
  };

  /// An exchange; its time is counted, and what makes it fail is looked for.
  template <typename Exchange>
  auto or_lost(const Exchange& exchange) -> decltype(exchange()) {
    struct Count {
      GlooRanks& ranks;
      Clock::time_point start = Clock::now();
      ~Count() { ranks.seconds_ += std::chrono::duration<double>(Clock::now() - start).count(); }
    };
    try {
      const Count counted{*this};
      if constexpr (std::is_void_v<decltype(exchange())>) {
        exchange();
        meeting_.count();
      } else {
        auto out = exchange();
        meeting_.count();
        return out;
      }
    } catch (const RankError&) {
      throw;
    } catch (const std::exception& error) {
      abandon();
      meeting_.lost(first_line(message_of(error)));
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
