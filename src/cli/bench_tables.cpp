#include "cli/bench_tables.h"

#include <fmt/core.h>

#include <algorithm>

#include "report/table.h"

namespace orthobatch::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using bench::Layout;
using bench::Times;

/// Numbers of a column end in the same place.
std::string number(double x) { return fmt::format("{:8.2f}", x); }

std::string ratio(const Times& a, const Times& b) {
  return a.each.empty() || b.each.empty() ? fmt::format("{:>8}", "-")
                                          : number(a.median() / b.median());
}

std::string right(const char* title) { return fmt::format("{:>8}", title); }

}  // namespace

std::string layer_table(const bench::LayerResult& result) {
  const Times& torch_bn = result.find(bench::Candidate::Kind::torch_bn)->all.both;
  Rows rows = {{"layer", right("forward"), right("backward"), right("both"), right("best"),
                right("x torch"), right("x GEMM"), right("speed-up"), right("NxN, %")}};
  for (const bench::LayerTimes& row : result.rows) {
    const bench::PassTimes& t = row.all;
    const double multiple =
        bench::against_product(t.both.median(), result.product.median()).multiple;
    rows.push_back(
        {row.candidate.name(), number(t.forward.median()), number(t.backward.median()),
         number(t.both.median()), number(t.both.best()), ratio(t.both, torch_bn),
         row.candidate.has_products() ? number(multiple) : right("-"), ratio(row.one.both, t.both),
         row.algebra.each.empty() ? right("-")
                                  : number(100 * row.algebra.median() / t.both.median())});
  }
  return fmt::format("{} {}, GEMM {:.0f} GFLOP/s\n{}", to_string(result.shape),
                     name_of(result.layout), result.product_gflops(), format_table(rows));
}

std::string mean_table(const std::vector<bench::LayerResult>& results) {
  Rows rows = {{"layer", "layout       ", right("x torch"), right("x GEMM"), right("speed-up")}};
  for (const bench::LayerTimes& first : results.front().rows)
    for (const Layout layout : {Layout::channels_last, Layout::nchw}) {
      std::vector<double> to_torch, to_product, speedup;
      const std::string name = first.candidate.name();
      for (const bench::LayerResult& result : results)
        for (const bench::LayerTimes& row : result.rows) {
          if (result.layout != layout || row.candidate.name() != name) continue;
          const Times& both = row.all.both;
          to_torch.push_back(both.median() /
                             result.find(bench::Candidate::Kind::torch_bn)->all.both.median());
          to_product.push_back(
              bench::against_product(both.median(), result.product.median()).multiple);
          if (!row.one.both.each.empty()) speedup.push_back(row.one.both.median() / both.median());
        }
      if (to_torch.empty()) continue;
      rows.push_back(
          {name, name_of(layout), number(bench::geometric_mean(to_torch)),
           first.candidate.has_products() ? number(bench::geometric_mean(to_product)) : right("-"),
           speedup.empty() ? right("-") : number(bench::geometric_mean(speedup))});
    }
  return "Geometric means over the shapes, forward and backward\n" + format_table(rows);
}

std::string memory_table(const std::vector<bench::MemoryResult>& results) {
  std::vector<std::string> layers;
  std::vector<bench::Shape> shapes;
  for (const bench::MemoryResult& row : results) {
    const std::string name = row.candidate.name();
    if (std::find(layers.begin(), layers.end(), name) == layers.end()) layers.push_back(name);
    if (std::find(shapes.begin(), shapes.end(), row.shape) == shapes.end())
      shapes.push_back(row.shape);
  }
  Rows rows = {{"layer"}};
  for (const bench::Shape& shape : shapes)
    rows.front().push_back(fmt::format("{:>8}", to_string(shape)));
  for (const std::string& layer : layers) {
    rows.push_back({layer});
    for (const bench::Shape& shape : shapes) {
      int64_t most = 0;
      for (const bench::MemoryResult& row : results)
        if (row.shape == shape && row.candidate.name() == layer)
          most = std::max(most, row.extra_bytes);
      const std::string cell = number(static_cast<double>(most) / (1 << 20));
      const size_t width = std::max<size_t>(8, to_string(shape).size());
      rows.back().push_back(fmt::format("{:>{}}", cell, width));
    }
  }
  return "Extra memory at the peak of forward and backward, MiB of tensors beyond x, z and their "
         "gradients; the larger of the layouts\n" +
         format_table(rows);
}

std::string step_table(const bench::StepResult& result) {
  Rows rows = {
      {"net", right("ms"), right("best"), right("images/s"), right("x torch"), right("peak MiB")}};
  for (const bench::StepTimes& row : result.rows)
    rows.push_back({row.name, number(row.times.median()), number(row.times.best()),
                    fmt::format("{:8.0f}", row.images_per_second),
                    ratio(row.times, result.rows.front().times),
                    number(static_cast<double>(row.peak_bytes) / (1 << 20))});
  return fmt::format("Training step of the {} net, batch {}, channels_last\n{}", result.data,
                     result.batch, format_table(rows));
}

std::string inference_table(const bench::InferenceResult& result) {
  Rows rows = {{"net", right("ms"), right("best"), right("x bare")}};
  for (const bench::InferenceResult::Row& row : result.rows)
    rows.push_back({row.name, number(row.times.median()), number(row.times.best()),
                    ratio(row.times, result.rows.front().times)});
  return fmt::format("Inference of the {} net, batch {}, channels_last\n{}", result.data,
                     result.batch, format_table(rows));
}

std::string scaling_table(const bench::ScalingSeries& series) {
  const bool over_channels = series.over == bench::ScalingSeries::Over::channels;
  Rows rows = {{right("N"), right("M"), right("both"), right("best")}};
  for (size_t i = 0; i < series.shapes.size(); ++i)
    rows.push_back({fmt::format("{:8}", series.shapes[i].channels),
                    fmt::format("{:8}", series.shapes[i].samples()),
                    number(series.times[i].both.median()), number(series.times[i].both.best())});
  return fmt::format("ZCA over {}: time ~ {}^{:.2f} ({:.2f} by the best times)\n{}",
                     over_channels ? "channels" : "samples", over_channels ? "N" : "M",
                     series.exponent(&Times::median), series.exponent(&Times::best),
                     format_table(rows));
}

std::string bar_table(const std::vector<bench::Bar>& bars) {
  Rows rows = {{"bar", "limit", "measured", "by best", "verdict", "where"}};
  size_t not_judged = 0;
  for (const bench::Bar& bar : bars) {
    if (bar.verdict() == bench::Bar::Verdict::not_judged) {
      ++not_judged;
      continue;
    }
    const auto value = [&](const std::optional<double>& x) {
      return x ? fmt::format("{:.2f}{}{}", *x, bar.unit.empty() ? "" : " ", bar.unit) : "-";
    };
    rows.push_back({bar.what,
                    fmt::format("{} {}{}{}", bar.at_most ? "<=" : ">=", bar.limit,
                                bar.unit.empty() ? "" : " ", bar.unit),
                    value(bar.median), value(bar.best), name_of(bar.verdict()), bar.where});
  }
  const std::string rest = not_judged == 0
                               ? ""
                               : fmt::format(
                                     "{} of {} bars were not judged: not every place they speak of "
                                     "was measured.\n",
                                     not_judged, bars.size());
  if (not_judged == bars.size()) return rest;
  return "What it should be, beside what was measured (judged by the medians)\n" +
         format_table(rows) + rest;
}

}  // namespace orthobatch::cli
