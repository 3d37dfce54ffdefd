#include "experiment/trend.h"

#include <algorithm>
#include <cmath>

namespace orthobatch::experiment {
namespace {

std::optional<Trend::Line> line_through(const std::vector<Trend::Point>& points) {
  const double n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Trend::Point& p : points) {
    x += std::log(p.images) / n;
    y += std::log(p.error.mean) / n;
  }
  for (const Trend::Point& p : points) {
    xx += (std::log(p.images) - x) * (std::log(p.images) - x);
    xy += (std::log(p.images) - x) * (std::log(p.error.mean) - y);
  }
  if (!(xx > 0) || !std::isfinite(xy)) return std::nullopt;
  return Trend::Line{std::exp(y - xy / xx * x), xy / xx};
}

}  // namespace

double Trend::Line::at(double images) const { return scale * std::pow(images, exponent); }

std::vector<Trend> trends_of(const std::vector<RowResult>& rows) {
  std::vector<Trend> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowResult& row = rows[i];
    if (!row.finished || row.best_error.n == 0 || row.runs.front().train_images == 0) continue;
    const std::string layer = run::layers_text(row.row.config);
    auto trend =
        std::find_if(out.begin(), out.end(), [&](const Trend& t) { return t.layer == layer; });
    if (trend == out.end()) trend = out.insert(out.end(), Trend{layer, {}, {}});
    trend->points.push_back(
        {i, static_cast<double>(row.runs.front().train_images), row.best_error});
  }
  for (Trend& trend : out) {
    std::sort(trend.points.begin(), trend.points.end(),
              [](const auto& a, const auto& b) { return a.images < b.images; });
    trend.line = line_through(trend.points);
  }
  return out;
}

}  // namespace orthobatch::experiment
