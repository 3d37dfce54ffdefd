#pragma once
// Curves in a terminal: dots of Braille or plain letters, an axis on each side.

#include <cstddef>
#include <string>
#include <vector>

namespace orthobatch {

struct PlotCurve {
  char mark = 'A';           ///< tells it from the others, with or without colour
  std::vector<double> x, y;  ///< as many of both; points that are not finite are left out
};

struct PlotStyle {
  size_t width = 80, height = 14;  ///< in characters, of all of it and of the part with curves
  bool unicode = true;             ///< else ASCII alone
  bool colour = false;
};

/// Whether a logarithmic scale shows more: all values above 0 but for a few zeros, and far apart.
bool wants_log_scale(const std::vector<PlotCurve>& curves);

/// Lines of text, each with its end; empty where there is nothing to draw. On a logarithmic scale
/// what is 0 is at the bottom.
std::string plot(const std::vector<PlotCurve>& curves, const PlotStyle& style);

/// A text in the colour of a curve; as it is without colours.
std::string in_colour(const std::string& text, size_t curve, bool colour);

}  // namespace orthobatch
