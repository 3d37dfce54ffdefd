#include "bench/scaling.h"

#include <ATen/Parallel.h>

namespace orthobatch::bench {
namespace {

std::vector<ScalingSeries> series_of(bool small) {
  ScalingSeries channels{ScalingSeries::Over::channels, {}, {}};
  ScalingSeries samples{ScalingSeries::Over::samples, {}, {}};
  for (const int64_t n :
       small ? std::vector<int64_t>{8, 16, 32} : std::vector<int64_t>{16, 32, 64, 128, 256, 512})
    channels.shapes.push_back(small ? Shape{8, n, 8, 8} : Shape{64, n, 14, 14});
  for (const int64_t batch :
       small ? std::vector<int64_t>{4, 8, 16} : std::vector<int64_t>{16, 32, 64, 128, 256, 512})
    samples.shapes.push_back(small ? Shape{batch, 16, 8, 8} : Shape{batch, 64, 14, 14});
  channels.times.resize(channels.shapes.size());
  samples.times.resize(samples.shapes.size());
  return {channels, samples};
}

struct Point {
  torch::Tensor x, gradient;
  Layer layer;
  PassTimes* times;
};

}  // namespace

double ScalingSeries::exponent(double (Times::*statistic)() const) const {
  std::vector<double> x, y;
  for (size_t i = 0; i < shapes.size(); ++i) {
    x.push_back(
        static_cast<double>(over == Over::channels ? shapes[i].channels : shapes[i].samples()));
    y.push_back((times[i].both.*statistic)());
  }
  return fitted_exponent(x, y);
}

std::vector<ScalingSeries> measure_scaling(const Session& session, bool small) {
  at::set_num_threads(session.threads);
  std::vector<ScalingSeries> out = series_of(small);
  std::vector<Point> points;
  for (ScalingSeries& series : out)
    for (size_t i = 0; i < series.shapes.size(); ++i) {
      const Shape& shape = series.shapes[i];
      points.push_back(
          {layer_input(shape, Layout::channels_last).requires_grad_(),
           layer_gradient(shape, Layout::channels_last),
           make_layer({Candidate::Kind::layer, LayerSpec("ZCA(1e-5)")}, shape.channels),
           &series.times[i]});
    }
  std::vector<std::function<void(bool)>> work;
  for (Point& point : points)
    work.emplace_back([&point](bool counted) {
      run_pass(point.layer, point.x, point.gradient, counted ? point.times : nullptr);
    });
  interleave(work, session, session.repeats, /*warm_up=*/true, "scaling of ZCA");
  return out;
}

}  // namespace orthobatch::bench
