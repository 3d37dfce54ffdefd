#pragma once
// Test error against the number of training images.

#include <optional>
#include <string>
#include <vector>

#include "experiment/row_result.h"

namespace orthobatch::experiment {

/// The rows of one layer that differ in their images, those without a result left out.
struct Trend {
  struct Point {
    size_t row;  ///< in the rows
    double images;
    Estimate error;  ///< least test error, percent
  };
  std::string layer;
  std::vector<Point> points;  ///< by images
  /// Least squares through the logarithms of the points: error = scale · images^exponent. Empty for
  /// fewer than two numbers of images.
  struct Line {
    double scale, exponent;
    double at(double images) const;
  };
  std::optional<Line> line;
};

std::vector<Trend> trends_of(const std::vector<RowResult>& rows);

}  // namespace orthobatch::experiment
