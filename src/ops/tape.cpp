#include "ops/tape.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/cayley.h"
#include "kernels/convert.h"

namespace orthobatch::ops {
namespace {

/// The memory of a tape.
struct Memo {
  core::Vector values;
  Made made;
};
void free_memo(void* memo) { delete static_cast<Memo*>(memo); }

/// Null where the tensor is not one that `record` made.
const Memo* memo_of(const Tensor& tape) {
  if (!tape.has_storage() || tape.storage_offset() != 0) return nullptr;
  const c10::DataPtr& data = tape.storage().data_ptr();
  return data.get_deleter() == &free_memo ? static_cast<const Memo*>(data.get_context()) : nullptr;
}

std::atomic<int64_t> copies{0};

/// The statistics of a copy.
core::Statistics statistics_of(const Tensor& tape, const KnownLayer& layer) {
  ++copies;
  const Tensor dense = tape.cpu().contiguous();
  const double* values = dense.data_ptr<double>();
  for (int64_t k = 0; k < dense.numel(); ++k)
    TORCH_CHECK(std::isfinite(values[k]), layer.who, ": expected a tape of finite values, got ",
                values[k], " at ", k);
  core::Statistics out;
  out.samples = values[samples];
  TORCH_CHECK(out.samples > 1, layer.who, ": expected the tape of 2 samples or more, got ",
              out.samples);
  values += counts;
  out.mean.assign(values, values + layer.num_features);
  out.covariance = core::BlockMatrix(layer.num_features, layer.algebra.block());
  core::Vector& blocks = out.covariance.values();
  std::copy_n(values + layer.num_features, blocks.size(), blocks.begin());
  return out;
}

}  // namespace

void check_tape(const Tensor& tape, const KnownLayer& layer) {
  TORCH_CHECK(tape.scalar_type() == at::kDouble && tape.numel() == tape_size(layer), layer.who,
              ": expected the tape of a forward pass, ", tape_size(layer), " doubles, got ",
              tape.numel(), " values of type ", tape.scalar_type());
}

core::LayerParameters scale_alone(const KnownLayer& layer, const Tensor& weight) {
  if (weight.defined()) check_sizes(layer, "weight", weight, {layer.num_features});
  core::LayerParameters out;
  out.gamma = kernels::to_vector(weight);
  out.skew = core::Vector(layer.spec.has_rotation() ? core::skew_size(layer.num_features) : 0);
  return out;
}

int64_t tape_size(const KnownLayer& layer) {
  const core::BlockMatrix blocks(layer.num_features, layer.algebra.block());
  return counts + layer.num_features + static_cast<int64_t>(blocks.values().size());
}

Tensor tape_of(core::Vector values, Made made) {
  auto memo = std::make_unique<Memo>(Memo{std::move(values), std::move(made)});
  double* const data = memo->values.data();
  const auto size = static_cast<int64_t>(memo->values.size());
  c10::Storage storage(c10::Storage::use_byte_size_t(), size * sizeof(double),
                       c10::DataPtr(data, memo.release(), &free_memo, at::kCPU));
  return at::empty({0}, at::kDouble).set_(storage, 0, {size}, {1});
}

Made kept_by(const Tensor& tape) {
  const Memo* memo = memo_of(tape);
  return memo ? memo->made : Made{};
}

Tensor record(const core::Statistics& statistics, Made made, bool was_unfolded) {
  const core::Vector& covariance = statistics.covariance.values();
  const auto count = [](int64_t n) { return static_cast<double>(n); };
  core::Vector values;
  values.reserve(counts + statistics.mean.size() + covariance.size());
  values = {statistics.samples,           count(made.map->floored()),  count(made.map->null()),
            count(made.map->exchanges()), count(was_unfolded ? 1 : 0), count(made.map->empty())};
  values.insert(values.end(), statistics.mean.begin(), statistics.mean.end());
  values.insert(values.end(), covariance.begin(), covariance.end());
  return tape_of(std::move(values), std::move(made));
}

Made replay(const Tensor& tape, const Call& call) {
  check_tape(tape, *call.layer);
  if (const Memo* memo = memo_of(tape)) return memo->made;
  return made_of(call, statistics_of(tape, *call.layer));
}

MapPointer replay(const Tensor& tape, const Tensor& weight, const KnownLayer& layer) {
  check_tape(tape, layer);
  if (const Memo* memo = memo_of(tape)) return memo->made.map;
  return std::make_shared<const core::LayerMap>(layer.algebra.map(
      statistics_of(tape, layer), scale_alone(layer, weight), core::Real::float64));
}

std::string warning_of(const KnownLayer& layer, const double* of) {
  const auto seen = static_cast<int64_t>(of[samples]), none = static_cast<int64_t>(of[null]);
  if (seen == 0) return "";
  if (layer.sample_stride > 1 && seen < layer.algebra.block())
    return c10::str(layer.who, ": sample_stride ", layer.sample_stride, " sees ", seen,
                    " places for ", layer.algebra.block(),
                    " channels; what lies in directions it does not see comes out far too large. "
                    "Said once.");
  if (none > 0)
    return c10::str(layer.who, ": ", none, " of ", layer.num_features,
                    " directions have no variance (constant or duplicated channels, or too few "
                    "samples); they are 0 in the output. Said once.");
  // A few dead channels do no harm; a convolution that fills a part of its directions does.
  const auto hollow = static_cast<int64_t>(of[empty]);
  if (hollow > std::max<int64_t>(3, layer.num_features / 16))
    return c10::str(
        layer.who, ": ", hollow, " of ", layer.num_features,
        " directions have less variance than eps and are divided by little more than sqrt(eps). "
        "Running statistics lag behind the weights there, so evaluation can be far off: use a "
        "floor "
        "(ZCAM or ZCAE), a smaller group_size, or auto_update_statistics. Said once.");
  return "";
}

int64_t replays_from_copies() { return copies; }

}  // namespace orthobatch::ops
