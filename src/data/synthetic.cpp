#include "data/synthetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace orthobatch::data {
namespace {

constexpr int digit_side = 28;
constexpr int64_t train_images = 10000, test_images = 2000;
constexpr uint64_t train_stream = 1, test_stream = 2;

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;

/// Part of an ellipse, angles in degrees, 0 to the right and 90 down.
Stroke arc(double cx, double cy, double rx, double ry, double from, double to) {
  Stroke stroke;
  const int pieces = 12;
  for (int i = 0; i <= pieces; ++i) {
    const double angle = (from + (to - from) * i / pieces) * (M_PI / 180);
    stroke.push_back({cx + rx * std::cos(angle), cy + ry * std::sin(angle)});
  }
  return stroke;
}

/// In a box of width 1 and height 1, y down.
const std::array<std::vector<Stroke>, digit_classes>& digit_strokes() {
  static const std::array<std::vector<Stroke>, digit_classes> strokes = {{
      {arc(0.5, 0.5, 0.38, 0.5, 0, 360)},
      {{{0.3, 0.2}, {0.55, 0.0}, {0.55, 1.0}}},
      {arc(0.5, 0.28, 0.36, 0.28, 180, 385), {{0.82, 0.42}, {0.12, 1.0}, {0.9, 1.0}}},
      {arc(0.45, 0.26, 0.36, 0.26, 200, 450), arc(0.45, 0.75, 0.4, 0.25, 270, 520)},
      {{{0.7, 1.0}, {0.7, 0.0}, {0.1, 0.66}, {0.95, 0.66}}},
      {{{0.85, 0.0}, {0.25, 0.0}, {0.2, 0.45}}, arc(0.46, 0.69, 0.38, 0.31, 225, 515)},
      {{{0.75, 0.0}, {0.35, 0.3}, {0.14, 0.7}}, arc(0.5, 0.71, 0.36, 0.29, 0, 360)},
      {{{0.1, 0.0}, {0.9, 0.0}, {0.4, 1.0}}},
      {arc(0.5, 0.25, 0.31, 0.25, 0, 360), arc(0.5, 0.74, 0.37, 0.26, 0, 360)},
      {arc(0.5, 0.3, 0.36, 0.3, 0, 360), {{0.86, 0.3}, {0.8, 0.65}, {0.55, 1.0}}},
  }};
  return strokes;
}

double distance_to_segment(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  double t = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0;
  t = std::clamp(t, 0.0, 1.0);
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

/// Whether p may be nearer than `reach` to a segment: a look at the box around it, which spares
/// most distances.
bool may_reach(Point p, Point a, Point b, double reach) {
  reach += 1e-9;  // more than rounding takes from a distance
  return p.x > std::min(a.x, b.x) - reach && p.x < std::max(a.x, b.x) + reach &&
         p.y > std::min(a.y, b.y) - reach && p.y < std::max(a.y, b.y) + reach;
}

ImageSet drawn(int64_t count, uint64_t stream, const char* name) {
  ImageSet set;
  set.name = name;
  set.height = set.width = digit_side;
  set.channels = 1;
  set.pixels.resize(count * digit_side * digit_side);
  for (int64_t i = 0; i < count; ++i) {
    Random random(stream, i, 0);
    set.labels.push_back(static_cast<uint8_t>(random.below(digit_classes)));
    draw_digit(set.labels.back(), random, set.pixels.data() + i * digit_side * digit_side);
  }
  return set;
}

}  // namespace

void draw_digit(int digit, Random& random, uint8_t* out) {
  const double width = random.uniform(9, 14), height = random.uniform(17, 21);
  const double slant = random.uniform(-0.3, 0.3), turn = random.uniform(-0.2, 0.2);
  const double cx = 13.5 + random.uniform(-1.5, 1.5), cy = 13.5 + random.uniform(-1.5, 1.5);
  const double half_pen = random.uniform(0.7, 1.5), bend = random.uniform(-0.12, 0.12);
  const double c = std::cos(turn), s = std::sin(turn);
  std::vector<Stroke> strokes = digit_strokes().at(digit);
  for (Stroke& stroke : strokes)
    for (Point& p : stroke) {
      const double y = (p.y - 0.5) * height;
      const double x = (p.x - 0.5 + bend * std::sin(M_PI * p.y)) * width - slant * y;
      p = {cx + c * x - s * y + random.uniform(-0.25, 0.25),
           cy + s * x + c * y + random.uniform(-0.25, 0.25)};
    }
  for (int y = 0; y < digit_side; ++y)
    for (int x = 0; x < digit_side; ++x) {
      const Point here{static_cast<double>(x), static_cast<double>(y)};
      const double reach = half_pen + 0.5;
      double nearest = reach;  // no ink
      for (const Stroke& stroke : strokes)
        for (size_t i = 0; i + 1 < stroke.size(); ++i)
          if (may_reach(here, stroke[i], stroke[i + 1], nearest))
            nearest = std::min(nearest, distance_to_segment(here, stroke[i], stroke[i + 1]));
      const double ink = std::clamp(reach - nearest, 0.0, 1.0);
      *out++ = static_cast<uint8_t>(std::lround(255 * ink));
    }
}

void load_synthetic(ImageSet& train, ImageSet& test) {
  train = drawn(train_images, train_stream, "synthetic train");
  test = drawn(test_images, test_stream, "synthetic test");
}

}  // namespace orthobatch::data
