#include "cli/bench_ranks.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/processor.h"
#include "base/table.h"
#include "bench/plan.h"
#include "io/file.h"

namespace orthobatch::cli {
namespace {

using bench::Exchanges;
using bench::Link;
using bench::most_planned_ranks;
using bench::NetLoad;
using Rows = std::vector<std::vector<std::string>>;

constexpr int64_t statistics_ranks = 8;
constexpr const char* layer = "ZCA(1e-5,1e12)";

std::string size_text(double bytes) {
  return bytes < 1e6   ? fmt::format("{:.1f} kB", bytes / 1e3)
         : bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6)
                       : fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string exchange_table(const Exchanges& e) {
  Rows rows = {{"bytes", "gather ms", "fitted", "sum ms", "fitted"}};
  for (const bench::ExchangePoint& p : e.points) {
    const auto bytes = static_cast<double>(p.bytes);
    rows.push_back({size_text(bytes), fmt::format("{:.3f}", p.gather.median()),
                    fmt::format("{:.3f}", 1e3 * e.link.gather(bytes, e.ranks)),
                    fmt::format("{:.3f}", p.sum.median()),
                    fmt::format("{:.3f}", 1e3 * e.link.sum(bytes, e.ranks))});
  }
  return fmt::format("{}\nA round takes {:.0f} us and a byte's share of {:.2f} GB/s.\n",
                     format_table(rows), 1e6 * e.link.latency, e.link.rate / 1e9);
}

struct NamedLink {
  std::string name;
  Link link;
};

/// Networks have the latency that was measured, which is mostly that of threads waking up.
std::vector<NamedLink> links_of(const Link& measured) {
  std::vector<NamedLink> out = {{"as measured", measured}};
  for (const double gigabits : {10.0, 100.0})
    out.push_back({fmt::format("{:g} Gbit/s", gigabits),
                   {measured.latency, std::min(measured.rate, gigabits * 1e9 / 8)}});
  return out;
}

std::string plan_table(const NetLoad& net, const std::vector<NamedLink>& links) {
  Rows rows = {{"ranks", "compute ms", "rounds", "sent"}};
  for (const NamedLink& l : links) {
    rows[0].push_back(l.name + ": step ms");
    rows[0].push_back("speed-up");
  }
  for (int64_t k = 1; k <= most_planned_ranks; k *= 2) {
    rows.push_back({std::to_string(k), fmt::format("{:.1f}", 1e3 * net.compute(k)),
                    std::to_string(net.rounds(k)), size_text(net.bytes(k))});
    for (const NamedLink& l : links) {
      rows.back().push_back(fmt::format("{:.1f}", 1e3 * net.step(k, l.link)));
      rows.back().push_back(fmt::format("{:.2f}", net.speed_up(k, l.link)));
    }
  }
  std::string text =
      fmt::format("{}: {}\n\n{}", net.name,
                  net.batch > 0 ? fmt::format("{} images a step on all ranks together", net.batch)
                                : fmt::format("{} images a step on each rank", net.batch_each),
                  format_table(rows));
  for (const NamedLink& l : links)
    text += fmt::format("{}: pays up to {} ranks\n", l.name, paying_ranks(net, l.link));
  return text;
}

nlohmann::ordered_json to_json(const Exchanges& e, const std::vector<NetLoad>& nets) {
  nlohmann::ordered_json out = {
      {"ranks", e.ranks}, {"latency_seconds", e.link.latency}, {"bytes_per_second", e.link.rate}};
  for (const bench::ExchangePoint& p : e.points)
    out["exchanges"].push_back(
        {{"bytes", p.bytes}, {"gather_ms", p.gather.median()}, {"sum_ms", p.sum.median()}});
  for (const NetLoad& net : nets) {
    nlohmann::ordered_json one = {{"name", net.name},
                                  {"seconds_image", net.seconds_image},
                                  {"seconds_fixed", net.seconds_fixed},
                                  {"gradient_bytes", net.gradients},
                                  {"forward_bytes", net.forward},
                                  {"backward_bytes", net.backward}};
    for (const NamedLink& l : links_of(e.link))
      for (int64_t k = 1; k <= most_planned_ranks; k *= 2)
        one["plan"].push_back({{"link", l.name},
                               {"ranks", k},
                               {"step_ms", 1e3 * net.step(k, l.link)},
                               {"speed_up", net.speed_up(k, l.link)}});
    out["nets"].push_back(one);
  }
  return out;
}

}  // namespace

void bench_ranks(ranks::Ranks& ranks, const bench::Session& session, const std::string& json,
                 bool small) {
  const auto print = [&](const std::string& text) {
    if (!ranks.leads()) return;
    fmt::print("{}\n", text);
    std::fflush(stdout);
  };
  print(fmt::format("{}, {} processes with {} thread{} each, medians of {}\n", processor_name(),
                    ranks.size(), session.threads, session.threads == 1 ? "" : "s",
                    session.repeats));
  const Exchanges exchanges = measure_exchanges(ranks, session);
  print(exchange_table(exchanges));
  std::vector<NetLoad> nets;
  for (const char* data : {"mnist", "svhn"}) {
    nets.push_back(bench::measure_paper_net(data, layer, session, small));
    const double measured = bench::measure_step_over(data, layer, ranks, session, small).median();
    print(plan_table(nets.back(), links_of(exchanges.link)));
    print(fmt::format("On these {} ranks a step takes {:.1f} ms where {:.1f} are expected.\n",
                      ranks.size(), measured,
                      1e3 * nets.back().step(ranks.size(), exchanges.link)));
  }
  nets.push_back(bench::estimate_resnet50(64, session, small));
  print(plan_table(nets.back(), links_of(exchanges.link)));
  nets.push_back(nets.back());
  nets.back().statistics_ranks = statistics_ranks;
  nets.back().name += fmt::format(", statistics shared by {} ranks each", statistics_ranks);
  print(plan_table(nets.back(), links_of(exchanges.link)));
  if (json.empty() || !ranks.leads()) return;
  write_output(json, to_json(exchanges, nets).dump(1) + "\n");
  print("All numbers are in " + json);
}

}  // namespace orthobatch::cli
