#include "ops/call.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cayley.h"
#include "kernels/convert.h"
#include "ops/groups.h"
#include "ops/memory.h"
#include "orthobatch/errors.h"

namespace orthobatch::ops {
namespace {

using core::BlockMatrix;
using core::Vector;
using kernels::to_vector;

void check_input(const KnownLayer& layer, const Inputs& in) {
  const Tensor& x = in.x;
  const bool fits = x.dim() == layer.dims + 2 || (layer.dims == 1 && x.dim() == 2);
  TORCH_CHECK_VALUE(fits, layer.who, ": expected ",
                    layer.dims == 1   ? "2D or 3D"
                    : layer.dims == 2 ? "4D"
                                      : "5D",
                    " input (got ", x.dim(), "D input)");
  TORCH_CHECK(x.layout() == at::kStrided, layer.who, ": expected a dense tensor, got ", x.layout());
  TORCH_CHECK(x.size(1) == layer.num_features, layer.who, ": expected ", layer.num_features,
              " channels, got input of size ", x.sizes());
  const at::ScalarType type = x.scalar_type();
  const bool half = is_half(type), single = half || type == at::kFloat;
  TORCH_CHECK(single || type == at::kDouble, layer.who,
              ": expected input of type float, double, half or bfloat16, got ", type);
  for (const Tensor* t :
       {&in.weight, &in.bias, &in.skew, &in.read, &in.consumer_weight, &in.consumer_bias})
    if (t->defined()) {
      const at::ScalarType own = t->scalar_type();
      const bool consumed = t == &in.consumer_weight || t == &in.consumer_bias;
      TORCH_CHECK(own == type || (half && t != &in.read && own == at::kFloat) ||
                      (consumed && single && is_half(own)),
                  layer.who, ": expected input of the layer's type ", own, ", got ", type);
      TORCH_CHECK(t->device() == x.device(), layer.who, ": expected input on ", t->device(),
                  ", got ", x.device());
    }
  if (in.read.defined())
    TORCH_CHECK(in.read.layout() == at::kStrided && in.read.dim() >= 2 &&
                    in.read.size(0) == x.size(0) && in.read.size(1) == x.size(1),
                layer.who,
                ": expected what the consumer reads to have the samples and channels of ",
                x.sizes(), ", got ", in.read.sizes());
}

/// The largest variance that a running variance in that type can take; for whatever is kept in
/// double, that of double.
double largest_variance(const KnownLayer& layer, core::Real real) {
  return layer.per_channel && real == core::Real::float32 ? std::numeric_limits<float>::max()
                                                          : std::numeric_limits<double>::max();
}

[[noreturn]] void refuse_values(const KnownLayer& layer, const Tensor& input) {
  const Tensor x = input.detach();
  const int64_t nan = x.isnan().sum().item<int64_t>(), inf = x.isinf().sum().item<int64_t>();
  TORCH_CHECK(
      !layer.has_group() || nan + inf > 0, layer.who,
      ": expected finite input whose variance fits the statistics, got other values in some "
      "process; the running statistics are unchanged");
  if (nan + inf == 0)
    TORCH_CHECK(false, layer.who,
                ": expected input whose variance fits the statistics, got values up to ",
                x.abs().max().item<double>(), " in size; the running statistics are unchanged");
  const Tensor first = x.isfinite().logical_not().nonzero()[0].cpu();
  TORCH_CHECK(false, layer.who, ": expected finite input, got ", nan, " NaN and ", inf,
              " infinite values, the first at ",
              at::IntArrayRef(first.data_ptr<int64_t>(), first.numel()),
              "; the running statistics are unchanged");
}

Memory<Made>& maps_of_averages() {
  static auto* const all = new Memory<Made>;  // never destroyed: threads may outlive main
  return *all;
}

}  // namespace

void check_parameters(const KnownLayer& layer, const Inputs& in) {
  const int64_t n = layer.num_features;
  if (in.weight.defined()) check_sizes(layer, "weight", in.weight, {n});
  if (in.bias.defined()) check_sizes(layer, "bias", in.bias, {n});
  TORCH_CHECK(in.skew.defined() == layer.spec.has_rotation(), layer.who, ": expected ",
              layer.spec.has_rotation() ? "a skew" : "no skew", ", got ",
              in.skew.defined() ? "one" : "none");
  if (in.skew.defined()) check_sizes(layer, "skew", in.skew, {core::skew_size(n)});
}

core::LayerParameters Inputs::parameters() const {
  std::vector<Vector> values = kernels::to_vectors({weight, bias, skew});
  return {std::move(values[0]), std::move(values[1]), std::move(values[2])};
}

void check_sizes(const KnownLayer& layer, const char* name, const Tensor& t,
                 at::IntArrayRef sizes) {
  TORCH_CHECK(t.sizes() == sizes, layer.who, ": expected ", name, " of size ", sizes, ", got ",
              t.sizes());
}

Call::Call(c10::string_view text, const Inputs& inputs, at::IntArrayRef packed)
    : layer(layer_of(text)), in(inputs) {
  check_input(*layer, in);
  check_parameters(*layer, in);
  type = in.x.scalar_type();
  real = kernels::real_of(in.x);
  in.x = kernels::dense_layout(in.x);
  if (in.read.defined()) in.read = kernels::dense_layout(in.read);
  as_came = read();
  if (is_half(type)) {
    in.x = in.x.to(at::kFloat);
    if (in.read.defined()) in.read = in.read.to(at::kFloat);
  }
  weight = in.consumer_weight;
  if (!weight.defined()) return;
  if (in.consumer_bias.defined())
    check_sizes(*layer, "a consumer's bias", in.consumer_bias, {weight.size(0)});
  if (packed.empty()) {
    const int64_t values = read().numel() / std::max<int64_t>(read().size(0), 1);
    TORCH_CHECK(weight.dim() == 2 && (empty() || weight.size(1) == values), layer->who,
                " folded into a Linear: expected a weight of ", values, " columns, got size ",
                weight.sizes());
    std::vector<int64_t> sizes = read().sizes().vec();
    sizes[0] = weight.size(0);
    if (!empty()) weight = weight.reshape(sizes);
    consumer = std::make_shared<LinearConsumer>();
    return;
  }
  const Convolution convolution = Convolution::unpacked(packed);
  const int64_t groups = convolution.groups;
  TORCH_CHECK(weight.dim() > 2 && weight.size(1) * groups == layer->num_features &&
                  weight.size(0) % groups == 0,
              layer->who, " folded into a convolution: expected a weight of ", layer->num_features,
              " input channels in ", groups, " groups, got size ", weight.sizes());
  const std::vector<int64_t> beforehand = convolution.beforehand();
  TORCH_CHECK(beforehand.empty() || in.read.defined(), layer->who,
              " folded into a convolution: expected what it reads, padded beforehand");
  if (convolution.zeros) padded = beforehand;
  consumer = convolution_consumer(convolution, weight.sizes().slice(2), in.x.sizes(), layer->who);
}

std::vector<int64_t> Call::output_sizes() const {
  std::vector<int64_t> out = in.x.sizes().vec();
  if (!consumer) return out;
  const std::vector<int64_t> places = consumer->output_places();
  out = {in.x.size(0), weight.size(0)};
  out.insert(out.end(), places.begin(), places.end());
  return out;
}

bool Call::folds(const core::LayerMap& map) const {
  const core::BlockMatrix& P = map.affine.P;
  const int64_t groups = consumer->groups();
  // Half precision rounds the weights by 0.4 %, times the cancellation of the raw data.
  if (is_half(weight.scalar_type()) && map.cancellation.raw > 4) return false;
  return map.affine.exact_uncentered && (groups == 1 || P.size() / groups % P.block() == 0);
}

void check_samples(const Call& call) {
  const KnownLayer& layer = *call.layer;
  if (layer.has_group()) return;  // others may have more
  const int64_t samples = sampled(call.in.x, layer.sample_stride).numel() / layer.num_features;
  TORCH_CHECK_VALUE(samples != 1, layer.who,
                    ": Expected more than 1 value per channel when training, got input size ",
                    call.in.x.sizes(),
                    layer.sample_stride == 1 ? "" : ", of which sample_stride sees one place");
}

namespace {

core::Statistics statistics_of(const Call& call, core::Sums sums, kernels::Along& along) {
  const KnownLayer& layer = *call.layer;
  core::Statistics out;
  if (call.empty()) {
    out.mean = Vector(layer.num_features);
    out.covariance = BlockMatrix(layer.num_features, layer.algebra.block());
    along.values = kernels::to_vectors(along.tensors);
  } else {
    const Tensor seen = kernels::dense_layout(sampled(call.in.x.detach(), layer.sample_stride));
    out = kernels::passes_for(seen).moments(seen, layer.algebra.block(), sums, &along);
  }
  if (!layer.has_group()) return out;
  // What is not finite goes to all processes, so that all refuse it and none waits for another.
  out = merge_processes(*group_of(layer), out);
  TORCH_CHECK_VALUE(out.samples > 1, layer.who,
                    ": Expected more than 1 value per channel when training, got ", out.samples,
                    " in all processes together");
  return out;
}

/// Whether products in float left their range.
bool out_of_float(const core::Statistics& statistics) {
  const BlockMatrix& sigma = statistics.covariance;
  for (int64_t b = 0; b < sigma.count(); ++b)
    for (int64_t i = 0, width = sigma.width(b); i < width; ++i) {
      const double variance = sigma.data(b)[i * width + i];
      if (!(variance < 1e30) || (variance > 0 && variance < 1e-30)) return true;
    }
  return false;
}

void check_statistics(const Call& call, const core::Statistics& statistics) {
  const double largest = largest_variance(*call.layer, call.real);
  const Vector& covariance = statistics.covariance.values();
  const bool fits = std::all_of(covariance.begin(), covariance.end(),
                                [&](double c) { return std::abs(c) <= largest; });
  if (!core::all_finite(statistics.mean) || !fits) refuse_values(*call.layer, call.in.x);
}

Made made_of(const Call& call, core::Statistics statistics, core::LayerParameters parameters) {
  try {
    return {std::make_shared<const core::LayerMap>(call.layer->algebra.map(
                std::move(statistics), std::move(parameters), call.real)),
            {}};
  } catch (const FactorizationError& error) {
    throw FactorizationError(call.layer->who + ": " + error.what() +
                             "; the running statistics are unchanged");
  }
}

/// Brings the map to the data, and with `averages` what the running averages take.
void place(Made& made, const KnownLayer& layer, const Tensor& x, bool averages) {
  if (x.is_cpu()) return;
  const core::AffineMap& map = made.map->affine;
  const Vector q = core::without_center(map).offset;
  BlockMatrix statistic;
  if (averages) statistic = layer.averages_transform() ? made.map->T : made.map->conditioned();
  std::vector<const Vector*> parts = {&map.P.values(), &map.center, &map.offset, &q};
  if (averages) parts.insert(parts.end(), {&made.map->mean, &statistic.values()});
  const std::vector<Tensor> values = kernels::to_device(parts, x.device());
  made.placed = kernels::placed_map(map, values.data(), x);
  made.q = values[3].to(made.placed.P.scalar_type());
  if (averages) made.average = in_sizes(layer, values[4], values[5]);
}

}  // namespace

Batch batch_of(const Call& call) {
  const KnownLayer& layer = *call.layer;
  const Inputs& in = call.in;
  kernels::Along along{{in.weight, in.bias, in.skew}, {}};
  // Our kernels for the CPU sum covariances in double in any case.
  bool again = !call.on_cpu() && call.real == core::Real::float32 &&
               kernels::exact_type(in.x.device()) == at::kDouble;
  Batch out;
  for (core::Sums sums = core::Sums::in_type;; sums = core::Sums::in_double, again = false) {
    out.statistics = statistics_of(call, sums, along);
    if (again && out_of_float(out.statistics)) continue;
    check_statistics(call, out.statistics);
    out.made =
        made_of(call, out.statistics, {along.values[0], along.values[1], along.values[2]});
    if (!again || out.made.map->affine.sums == core::Sums::in_type) break;
  }
  place(out.made, layer, in.x, /*averages=*/true);
  return out;
}

Made made_of(const Call& call, core::Statistics statistics) {
  Made out = made_of(call, std::move(statistics), call.in.parameters());
  place(out, *call.layer, call.in.x, /*averages=*/false);
  return out;
}

void check_average(const KnownLayer& layer, const Average& average) {
  const StatisticSizes sizes = statistic_sizes(layer.spec, layer.num_features, layer.average);
  const char* what = layer.averages_transform() ? "the running transform"
                     : layer.per_channel        ? "the running variance"
                                                : "the running covariance";
  check_sizes(layer, "the running mean", average.mean, {layer.num_features});
  check_sizes(layer, what, average.statistic, sizes.blocks);
  TORCH_CHECK(average.last.defined() == !sizes.last.empty(), layer.who, ": expected ",
              sizes.last.empty() ? "no" : "a", " statistic of a smaller last group, got ",
              average.last.defined() ? "one" : "none");
  if (average.last.defined()) check_sizes(layer, what, average.last, sizes.last);
  for (const Tensor* t : {&average.mean, &average.statistic, &average.last})
    TORCH_CHECK(!t->defined() ||
                    (at::isFloatingType(t->scalar_type()) && t->device() == average.mean.device()),
                layer.who, ": expected running statistics in a floating type on ",
                average.mean.device(), ", got ", t->scalar_type(), " on ", t->device());
}

std::shared_ptr<const Made> made_of(const KnownLayer& layer, const Inputs& in,
                                    const Average& average) {
  check_average(layer, average);
  TORCH_CHECK(!in.x.defined() || in.x.device() == average.mean.device(), layer.who,
              ": expected input on ", average.mean.device(), ", got ", in.x.device());
  const bool transform = layer.averages_transform(), places = in.x.defined() && !in.x.is_cpu();
  const std::vector<Tensor> from = {average.mean, average.statistic, average.last,
                                    in.weight,    in.bias,           in.skew};
  const std::shared_ptr<const void> maker(layer.shared_from_this());
  Made made{};
  if (const auto known = maps_of_averages().find(from, maker)) {
    const Tensor& P = known->placed.P;
    if (!places || (P.defined() && known->type == in.x.scalar_type())) return known;
    made.map = known->map;
  } else {
    std::vector<Vector> values = kernels::to_vectors(from);
    const Vector& mean = values[0];
    const BlockMatrix blocks = to_blocks(layer, std::move(values[1]), values[2]);
    TORCH_CHECK(core::all_finite(mean) && core::all_finite(blocks.values()), layer.who,
                ": expected finite running statistics, got NaN or infinite ones");
    const core::Real real = kernels::real_of(average.mean);
    core::LayerParameters parameters = {values[3], values[4], values[5]};
    made.map = std::make_shared<const core::LayerMap>(
        transform ? layer.algebra.map_of_transform(mean, blocks, std::move(parameters), real)
                  : layer.algebra.map_of_average(mean, blocks, std::move(parameters), real));
  }
  if (places) {
    place(made, layer, in.x, /*averages=*/false);
    made.type = in.x.scalar_type();
  }
  const auto out = std::make_shared<const Made>(std::move(made));
  maps_of_averages().put(from, maker, out);
  return out;
}

Average in_sizes(const KnownLayer& layer, const Tensor& mean, const Tensor& blocks) {
  const StatisticSizes sizes = statistic_sizes(layer.spec, layer.num_features, layer.average);
  int64_t whole = 1;
  for (const int64_t s : sizes.blocks) whole *= s;
  Average out{mean, blocks.narrow(0, 0, whole).view(sizes.blocks), {}};
  if (!sizes.last.empty())
    out.last = blocks.narrow(0, whole, blocks.numel() - whole).view(sizes.last);
  return out;
}

Average to_tensors(const KnownLayer& layer, const Vector& mean, const BlockMatrix& blocks) {
  return in_sizes(layer, kernels::to_tensor(mean), kernels::to_tensor(blocks.values()));
}

BlockMatrix to_blocks(const KnownLayer& layer, Vector values, const Vector& last) {
  BlockMatrix out(layer.num_features, layer.algebra.block());
  values.insert(values.end(), last.begin(), last.end());
  TORCH_CHECK(values.size() == out.values().size(), layer.who, ": expected ", out.values().size(),
              " values of a statistic, got ", values.size());
  out.values() = std::move(values);
  return out;
}

Tensor sampled(Tensor x, int64_t stride) {
  for (int64_t d = 2; stride > 1 && d < x.dim(); ++d) x = x.slice(d, 0, x.size(d), stride);
  return x;
}

void add_statistics_gradient(Tensor& dx, const Tensor& x, const core::GradientMap& map,
                             const kernels::Placed& placed, int64_t stride) {
  const kernels::Passes& passes = kernels::passes_for(x);
  if (stride == 1) return passes.add_statistics_gradient(dx, x, map, placed);
  const Tensor seen = kernels::dense_layout(sampled(x, stride));
  Tensor part = at::zeros_like(seen);
  passes.add_statistics_gradient(part, seen, map, placed);
  sampled(dx, stride).add_(part);
}

}  // namespace orthobatch::ops
