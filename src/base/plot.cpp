#include "base/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>

#include "base/text.h"

namespace orthobatch {
namespace {

constexpr double least_ratio_for_log = 3;
constexpr size_t dots_across = 2, dots_down = 4;  // of a Braille character
constexpr size_t columns_for_marks = 2;           // right of where curves end

/// Values to a place between 0 and 1.
struct Scale {
  double low = 0, high = 1;
  bool logarithmic = false;

  double of(double x) const { return logarithmic ? std::log10(std::max(x, low)) : x; }
  double place(double x) const {
    const double span = of(high) - of(low);
    return span > 0 ? std::clamp((of(x) - of(low)) / span, 0.0, 1.0) : 0.5;
  }
};

bool drawn(const PlotCurve& c, size_t i) { return std::isfinite(c.x[i]) && std::isfinite(c.y[i]); }

/// The least and the largest of what is drawn; low > high where nothing is.
template <typename Take>
Scale range_of(const std::vector<PlotCurve>& curves, const Take& take) {
  Scale scale{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const PlotCurve& c : curves)
    for (size_t i = 0; i < c.x.size(); ++i) {
      if (!drawn(c, i)) continue;
      scale.low = std::min(scale.low, take(c, i));
      scale.high = std::max(scale.high, take(c, i));
    }
  return scale;
}

double least_above_zero(const std::vector<PlotCurve>& curves) {
  double least = std::numeric_limits<double>::infinity();
  for (const PlotCurve& c : curves)
    for (size_t i = 0; i < c.x.size(); ++i)
      if (drawn(c, i) && c.y[i] > 0) least = std::min(least, c.y[i]);
  return least;
}

/// 1, 2 or 5 times a power of ten, the least that is not below x.
double round_step(double x) {
  const double power = std::pow(10, std::floor(std::log10(x)));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= x * (1 - 1e-9)) return step * power;
  return 10 * power;
}

std::vector<double> linear_ticks(double low, double high, size_t most) {
  if (!(high > low)) return {low};
  const double step = round_step((high - low) / static_cast<double>(most));
  std::vector<double> out;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); ++k)
    out.push_back(k * step);
  return out;
}

std::vector<double> log_ticks(double low, double high) {
  const std::vector<double> digits = high / low > 10
                                         ? std::vector<double>{1, 2, 5}
                                         : std::vector<double>{1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<double> out;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
    for (const double digit : digits)
      if (digit * power >= low * (1 - 1e-9) && digit * power <= high * (1 + 1e-9))
        out.push_back(digit * power);
  return out;
}

std::string tick_text(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", x);
  return text;
}

std::string utf8(uint32_t code) {  // of three bytes, as all that is drawn here
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

/// The part with the curves, in cells; in ASCII a cell is one dot.
class Canvas {
 public:
  Canvas(size_t columns, size_t rows, const PlotStyle& style)
      : columns_(columns), rows_(rows), style_(style), cells_(columns * rows) {}

  size_t dots_wide() const { return columns_ * across(); }
  size_t dots_high() const { return rows_ * down(); }

  void dot(size_t x, size_t y, size_t curve, char mark) {
    Cell& cell = at(x / across(), y / down());
    if (!style_.unicode) {
      if (cell.curve == none) cell = {0, mark, curve};
      return;
    }
    constexpr unsigned bits[dots_down][dots_across] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    cell.dots |= bits[y % dots_down][x % dots_across];
    if (cell.mark == 0) cell.curve = curve;
  }

  /// A letter in place of the dots, in the first cell from there on that has none; so that curves
  /// can be told apart without colours.
  void mark(size_t column, size_t row, size_t curve, char letter) {
    if (!style_.unicode) return;  // its dots are letters
    for (; column < columns_; ++column)
      if (Cell& cell = at(column, row); cell.mark == 0) {
        cell = {0, letter, curve};
        return;
      }
  }

  size_t column_of(size_t dot) const { return dot / across(); }
  size_t row_of(size_t dot) const { return dot / down(); }

  std::string line(size_t row) const {
    size_t end = columns_;
    while (end > 0 && cells_[row * columns_ + end - 1].curve == none) --end;
    std::string out;
    for (size_t c = 0; c < end;) {
      const size_t curve = cells_[row * columns_ + c].curve;
      std::string part;  // of one colour
      for (; c < end && cells_[row * columns_ + c].curve == curve; ++c)
        part += text_of(cells_[row * columns_ + c]);
      out += curve == none ? part : in_colour(part, curve, style_.colour);
    }
    return out;
  }

 private:
  static constexpr size_t none = static_cast<size_t>(-1);
  struct Cell {
    unsigned dots = 0;
    char mark = 0;
    size_t curve = none;
  };

  static std::string text_of(const Cell& cell) {
    if (cell.curve == none) return " ";
    return cell.mark ? std::string(1, cell.mark) : utf8(0x2800 + cell.dots);
  }
  size_t across() const { return style_.unicode ? dots_across : 1; }
  size_t down() const { return style_.unicode ? dots_down : 1; }
  Cell& at(size_t column, size_t row) { return cells_[row * columns_ + column]; }

  size_t columns_, rows_;
  const PlotStyle& style_;
  std::vector<Cell> cells_;
};

struct Dot {
  size_t x, y;
};

std::vector<Dot> dots_of(const PlotCurve& c, const Scale& xs, const Scale& ys, const Canvas& canvas,
                         size_t room_for_marks) {
  const auto wide = static_cast<double>(canvas.dots_wide() - 1 - room_for_marks);
  const auto high = static_cast<double>(canvas.dots_high() - 1);
  std::vector<Dot> out;
  for (size_t i = 0; i < c.x.size(); ++i)
    if (drawn(c, i))
      out.push_back({static_cast<size_t>(std::lround(xs.place(c.x[i]) * wide)),
                     static_cast<size_t>(std::lround((1 - ys.place(c.y[i])) * high))});
  return out;
}

/// All dots on the way, a step at a time along the longer side.
std::vector<Dot> line_between(const Dot& a, const Dot& b) {
  const double dx = static_cast<double>(b.x) - static_cast<double>(a.x);
  const double dy = static_cast<double>(b.y) - static_cast<double>(a.y);
  const double steps = std::max({std::abs(dx), std::abs(dy), 1.0});
  std::vector<Dot> out;
  for (double k = 0; k <= steps; ++k)
    out.push_back({static_cast<size_t>(std::lround(static_cast<double>(a.x) + dx * k / steps)),
                   static_cast<size_t>(std::lround(static_cast<double>(a.y) + dy * k / steps))});
  return out;
}

/// The letter of a curve of dots, beside its end and at places on its way where no other has its
/// own.
void mark_curve(const std::vector<Dot>& way, size_t curve, size_t curves, char letter,
                Canvas& canvas) {
  constexpr size_t times = 4;
  const size_t columns = canvas.column_of(canvas.dots_wide());
  for (size_t i = 0; curves > 1 && i < times; ++i) {
    const size_t column = columns * (2 * (i * curves + curve) + 1) / (2 * times * curves);
    const auto there = std::find_if(
        way.begin(), way.end(), [&](const Dot& dot) { return canvas.column_of(dot.x) == column; });
    if (there != way.end()) canvas.mark(column, canvas.row_of(there->y), curve, letter);
  }
  canvas.mark(canvas.column_of(way.back().x) + 1, canvas.row_of(way.back().y), curve, letter);
}

void draw(const std::vector<PlotCurve>& curves, const Scale& xs, const Scale& ys, Canvas& canvas) {
  const size_t room = columns_for_marks * canvas.dots_wide() / canvas.column_of(canvas.dots_wide());
  std::vector<std::vector<Dot>> ways;
  for (size_t k = 0; k < curves.size(); ++k) {
    const std::vector<Dot> points = dots_of(curves[k], xs, ys, canvas, room);
    std::vector<Dot> way(points.begin(), points.begin() + (points.empty() ? 0 : 1));
    for (size_t i = 1; i < points.size(); ++i) {
      const std::vector<Dot> part = line_between(points[i - 1], points[i]);
      way.insert(way.end(), part.begin(), part.end());
    }
    for (const Dot& dot : way) canvas.dot(dot.x, dot.y, k, curves[k].mark);
    ways.push_back(way);
  }
  for (size_t k = 0; k < curves.size(); ++k)
    if (!ways[k].empty()) mark_curve(ways[k], k, curves.size(), curves[k].mark, canvas);
}

std::string spaces(size_t n) { return std::string(n, ' '); }

/// The lower axis, and the numbers below it.
std::string bottom(const Scale& xs, size_t left, size_t columns, const PlotStyle& style) {
  const auto wide = static_cast<double>(columns - 1 - columns_for_marks);
  std::vector<double> ticks = linear_ticks(xs.low, xs.high, std::max<size_t>(2, columns / 10));
  ticks.erase(
      std::remove_if(ticks.begin(), ticks.end(), [](double x) { return x != std::floor(x); }),
      ticks.end());
  if (ticks.empty() || ticks.front() != xs.low) ticks.insert(ticks.begin(), xs.low);
  std::string axis, numbers;
  size_t drawn_to = 0;
  for (const double tick : ticks) {
    const auto at = static_cast<size_t>(std::lround(xs.place(tick) * wide));
    const std::string text = tick_text(tick);
    const size_t start = at + 1 >= text.size() ? at + 1 - text.size() : 0;
    if (!numbers.empty() && start < numbers.size() + 1) continue;
    numbers += spaces(start - numbers.size()) + text;
    for (; drawn_to < at; ++drawn_to) axis += style.unicode ? "─" : "-";
    axis += style.unicode ? "┴" : "+";
    ++drawn_to;
  }
  for (; drawn_to < columns; ++drawn_to) axis += style.unicode ? "─" : "-";
  return spaces(left) + (style.unicode ? " └" : " +") + axis + "\n" + spaces(left + 2) + numbers +
         "\n";
}

}  // namespace

std::string in_colour(const std::string& text, size_t curve, bool colour) {
  constexpr int codes[] = {34, 31, 32, 35, 36, 33};
  if (!colour) return text;
  return "\033[" + std::to_string(codes[curve % std::size(codes)]) + "m" + text + "\033[0m";
}

bool wants_log_scale(const std::vector<PlotCurve>& curves) {
  const Scale range = range_of(curves, [](const PlotCurve& c, size_t i) { return c.y[i]; });
  return range.low >= 0 && range.high > 0 &&
         range.high / least_above_zero(curves) >= least_ratio_for_log;
}

std::string plot(const std::vector<PlotCurve>& curves, const PlotStyle& style) {
  const Scale xs = range_of(curves, [](const PlotCurve& c, size_t i) { return c.x[i]; });
  Scale ys = range_of(curves, [](const PlotCurve& c, size_t i) { return c.y[i]; });
  if (xs.low > xs.high) return "";
  ys.logarithmic = wants_log_scale(curves);
  if (ys.logarithmic && ys.low <= 0) ys.low = least_above_zero(curves) / 2;
  std::vector<double> ticks = ys.logarithmic ? log_ticks(ys.low, ys.high)
                                             : linear_ticks(ys.low, ys.high, style.height / 3 + 1);
  if (ticks.empty()) ticks = {ys.low, ys.high};
  size_t left = 0;
  for (const double tick : ticks) left = std::max(left, tick_text(tick).size());
  const size_t columns = std::max<size_t>(style.width, left + 14) - left - 2;
  Canvas canvas(columns, style.height, style);
  draw(curves, xs, ys, canvas);

  std::vector<std::string> labels(style.height);
  for (const double tick : ticks) {
    const double place = (1 - ys.place(tick)) * static_cast<double>(canvas.dots_high() - 1);
    std::string& label = labels[canvas.row_of(static_cast<size_t>(std::lround(place)))];
    if (label.empty()) label = tick_text(tick);
  }
  std::string out;
  for (size_t row = 0; row < style.height; ++row) {
    const char* side =
        labels[row].empty() ? (style.unicode ? " │" : " |") : (style.unicode ? " ┤" : " +");
    out += spaces(left - labels[row].size()) + labels[row] + side + canvas.line(row) + "\n";
  }
  return out + bottom(xs, left, columns, style);
}

}  // namespace orthobatch
