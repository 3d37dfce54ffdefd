#include "bench/bars.h"

#include <algorithm>

namespace orthobatch::bench {
namespace {

/// A ratio at one place, from median times and from best times.
struct Ratio {
  double median, best;
  std::string where;
};

/// The places of a bar that were measured.
struct Places {
  std::vector<Ratio> ratios;
  size_t needed = 0;

  void add(const Times* over, const Times* under, const std::string& where) {
    ++needed;
    if (over && under && !over->each.empty() && !under->each.empty())
      ratios.push_back({over->median() / under->median(), over->best() / under->best(), where});
  }
};

Bar bar_of(std::string what, bool at_most, double limit, const Places& places) {
  Bar bar;
  bar.what = std::move(what);
  bar.at_most = at_most;
  bar.limit = limit;
  bar.measured = places.ratios.size();
  bar.needed = places.needed;
  return bar;
}

Bar worst(std::string what, bool at_most, double limit, const Places& places) {
  Bar bar = bar_of(std::move(what), at_most, limit, places);
  for (const Ratio& r : places.ratios) {
    const auto is_worse = [&](double a, double b) { return at_most ? a > b : a < b; };
    if (!bar.median || is_worse(r.median, *bar.median)) {
      bar.median = r.median;
      bar.where = r.where;
    }
    if (!bar.best || is_worse(r.best, *bar.best)) bar.best = r.best;
  }
  return bar;
}

Bar mean(std::string what, bool at_most, double limit, const Places& places) {
  Bar bar = bar_of(std::move(what), at_most, limit, places);
  if (places.ratios.empty()) return bar;
  std::vector<double> medians, bests;
  for (const Ratio& r : places.ratios) {
    medians.push_back(r.median);
    bests.push_back(r.best);
  }
  bar.median = geometric_mean(medians);
  bar.best = geometric_mean(bests);
  bar.where = "geometric mean";
  return bar;
}

/// Below this a step is measured to see whether it runs.
constexpr int64_t full_batch = 64;

const LayerSpec& zca() {
  static const LayerSpec spec("ZCA(1e-5)");
  return spec;
}

class Judge {
 public:
  Judge(const Results& results, int threads) : results_(results), threads_(threads) {}

  std::vector<Bar> bars() {
    zca_against_product();
    zca_against_torch();
    bn();
    composition();
    other_methods();
    threads();
    step();
    inference();
    memory();
    return std::move(bars_);
  }

 private:
  const Times* both(const Shape& shape, Layout layout, const LayerSpec& spec) const {
    const LayerResult* result = results_.find(shape, layout);
    const LayerTimes* row = result ? result->find(spec) : nullptr;
    return row ? &row->all.both : nullptr;
  }
  const Times* both(const Shape& shape, Layout layout, Candidate::Kind kind) const {
    const LayerResult* result = results_.find(shape, layout);
    const LayerTimes* row = result ? result->find(kind) : nullptr;
    return row ? &row->all.both : nullptr;
  }

  void zca_against_product() {
    Places wide, narrow;
    for (const Shape& shape : paper_shapes()) {
      const LayerResult* result = results_.find(shape, Layout::channels_last);
      Times limit;
      if (result)
        for (const double t : result->product.each) limit.each.push_back(layer_products * t);
      (shape.channels >= 64 ? wide : narrow)
          .add(both(shape, Layout::channels_last, zca()), &limit, to_string(shape));
    }
    bars_.push_back(worst("ZCA over its products at the GEMM rate, N >= 64", true, 1.35, wide));
    bars_.push_back(worst("ZCA over its products at the GEMM rate, N < 64", true, 2.5, narrow));
  }

  void zca_against_torch() {
    Places against_bn, layouts;
    for (const Shape& shape : paper_shapes()) {
      const Times* time = both(shape, Layout::channels_last, zca());
      against_bn.add(time, both(shape, Layout::channels_last, Candidate::Kind::torch_bn),
                     to_string(shape));
      layouts.add(both(shape, Layout::nchw, zca()), time, to_string(shape));
    }
    bars_.push_back(mean("ZCA over torch's BatchNorm2d, channels_last", true, 2.2, against_bn));
    bars_.push_back(
        mean("ZCA over torch's BatchNorm2d, channels_last (aim)", true, 1.8, against_bn));
    bars_.push_back(worst("ZCA in NCHW over channels_last", true, 1.25, layouts));
  }

  void bn() {
    for (const Layout layout : {Layout::channels_last, Layout::nchw}) {
      Places places;
      for (const Shape& shape : paper_shapes())
        places.add(both(shape, layout, "BN"), both(shape, layout, Candidate::Kind::torch_bn),
                   to_string(shape));
      bars_.push_back(mean(std::string("BN over torch's BatchNorm2d, ") + name_of(layout), true,
                           layout == Layout::channels_last ? 1.0 : 0.75, places));
    }
  }

  void composition() {
    Places places;
    for (const Shape& shape : standard_shapes())
      for (const Layout layout : {Layout::channels_last, Layout::nchw})
        places.add(both(shape, layout, Candidate::Kind::composed), both(shape, layout, zca()),
                   to_string(shape) + " " + name_of(layout));
    bars_.push_back(worst("composed ZCA over ZCA, every shape", false, 6, places));
    bars_.push_back(mean("composed ZCA over ZCA", false, 8, places));
  }

  void other_methods() {
    const auto against_zca = [&](const LayerSpec& spec) {
      Places places;
      for (const Shape& shape : standard_shapes())
        places.add(both(shape, Layout::channels_last, spec),
                   both(shape, Layout::channels_last, zca()), to_string(shape));
      return places;
    };
    for (const char* method : {"LDL", "PLDLP", "ZCA_corr", "ZCAM", "ZCAE", "PCA"})
      bars_.push_back(
          worst(std::string(method) + " over ZCA, every shape", true, 1.25, against_zca(method)));
    bars_.push_back(worst("ZCA->W->Gamma over ZCA, every shape", true, 1.10,
                          against_zca("ZCA(1e-5)->W->Gamma")));
  }

  void threads() {
    std::vector<Shape> shapes = paper_shapes();
    std::stable_sort(shapes.begin(), shapes.end(),
                     [](const Shape& a, const Shape& b) { return a.values() > b.values(); });
    shapes.resize(4);
    Places places;
    for (const Shape& shape : shapes) {
      const LayerResult* result = results_.find(shape, Layout::channels_last);
      const LayerTimes* row = result && threads_ == 2 ? result->find(zca()) : nullptr;
      places.add(row ? &row->one.both : nullptr, row ? &row->all.both : nullptr, to_string(shape));
    }
    bars_.push_back(
        worst("ZCA, 1 thread over 2 threads, four largest shapes", false, 1.75, places));
  }

  void step() {
    const auto against = [&](const char* name, const char* other,
                             const std::vector<std::string>& nets) {
      Places places;
      for (const std::string& net : nets) {
        const StepTimes *row = find_step(net, name), *base = find_step(net, other);
        places.add(row ? &row->times : nullptr, base ? &base->times : nullptr, net);
      }
      return places;
    };
    const std::vector<std::string> digits = {"mnist", "svhn"}, stacks = {stack};
    const auto bar = [&](const char* what, double limit, const Places& places) {
      bars_.push_back(worst(what, true, limit, places));
    };
    const Places unfolded = against(unfolded_net, torch_net, digits),
                 folded = against(folded_net, torch_net, digits);
    bar("step with ZCA, not folded, over torch's net", 1.25, unfolded);
    bar("step with ZCA, not folded, over torch's net (aim)", 1.15, unfolded);
    bar("step with BN over torch's net", 1.0, against(bn_net, torch_net, digits));
    bar("step with ZCA over torch's net", 0.85, folded);
    bar("step with ZCA over torch's net (aim)", 0.78, folded);
    bar("step with ZCA over ours with BN", 1.08, against(folded_net, bn_net, digits));
    bar("step with ZCA, sample_stride 2, over ours with BN", 1.0,
        against(stride_2_net, bn_net, digits));
    bar("stack with ZCA, group_size=64, over torch's stack", 1.10,
        against(folded_net, torch_net, stacks));
    peak();
  }

  void inference() {
    Places places;
    for (const char* net : {"mnist", "svhn"})
      for (const int64_t batch : {1, 256}) {
        const InferenceResult* found = nullptr;
        for (const InferenceResult& result : results_.inference)
          if (result.data == net && result.batch == batch) found = &result;
        places.add(found ? found->find(plain_net_name) : nullptr,
                   found ? found->find(bare_net) : nullptr,
                   std::string(net) + ", batch " + std::to_string(batch));
      }
    bars_.push_back(
        worst("inference of fold(net) over the net without layers", true, 1.02, places));
  }

  void peak() {
    Places places;
    for (const char* net : {"mnist", "svhn", stack}) {
      const StepTimes *row = find_step(net, folded_net), *base = find_step(net, torch_net);
      const auto bytes = [](const StepTimes& t) {
        return Times{{static_cast<double>(t.peak_bytes)}};
      };
      const Times ours = row ? bytes(*row) : Times{}, torchs = base ? bytes(*base) : Times{};
      places.add(&ours, &torchs, net);
    }
    bars_.push_back(
        worst("tensors of a step with ZCA at their peak, over torch's net", true, 1.0, places));
  }

  const StepTimes* find_step(const std::string& net, const char* name) const {
    for (const StepResult& result : results_.step)
      if (result.data == net && result.batch >= full_batch) return result.find(name);
    return nullptr;
  }

  void memory() {
    Bar bar;
    bar.what = "extra tensors of any layer, N <= 128";
    bar.limit = 8;
    bar.unit = "MiB";
    for (const Shape& shape : standard_shapes()) {
      if (shape.channels > 128) continue;
      for (const Layout layout : {Layout::channels_last, Layout::nchw})
        for (const Candidate& candidate : all_candidates()) {
          if (candidate.kind != Candidate::Kind::layer) continue;
          ++bar.needed;
          for (const MemoryResult& row : results_.memory) {
            if (!(row.shape == shape) || row.layout != layout ||
                row.candidate.spec != candidate.spec)
              continue;
            ++bar.measured;
            const double mib = static_cast<double>(row.extra_bytes) / (1 << 20);
            if (bar.median && mib <= *bar.median) continue;
            bar.median = mib;
            bar.where = candidate.name() + " " + to_string(shape) + " " + name_of(layout);
          }
        }
    }
    bars_.push_back(bar);
  }

  const Results& results_;
  int threads_;
  std::vector<Bar> bars_;
};

}  // namespace

const LayerResult* Results::find(const Shape& shape, Layout layout) const {
  for (const LayerResult& result : layers)
    if (result.shape == shape && result.layout == layout) return &result;
  return nullptr;
}

Bar::Verdict Bar::verdict() const {
  if (!median || measured < needed) return Verdict::not_judged;
  const bool holds = at_most ? *median <= limit : *median >= limit;
  return holds ? Verdict::met : Verdict::not_met;
}

const char* name_of(Bar::Verdict verdict) {
  switch (verdict) {
    case Bar::Verdict::met:
      return "met";
    case Bar::Verdict::not_met:
      return "NOT MET";
    case Bar::Verdict::not_judged:
      break;
  }
  return "not judged";
}

std::vector<Bar> judge(const Results& results, int threads) {
  return Judge(results, threads).bars();
}

}  // namespace orthobatch::bench
