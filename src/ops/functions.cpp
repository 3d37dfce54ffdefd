// Whitening as functions, without parameters or averages: of samples, and of covariances. The matrices
// of a batch are the blocks of one layer without samples, so their algebra is the layer's.

#include <ATen/ATen.h>

#include "core/registry.h"
#include "kernels/convert.h"
#include "ops/operators.h"
#include "ops/tape.h"

namespace orthobatch::ops {
namespace {

LayerSpec spec_of_function(string_view text, const char* who) {
  LayerSpec spec = spec_of(text);
  TORCH_CHECK_VALUE(!spec.has_rotation(), who, ": expected a spec without learned parameters, got ",
                    to_string(spec), "; leave out ->W");
  return spec;
}

/// The channels that are whitened together, of n.
int64_t width_of(const LayerSpec& spec, int64_t n) {
  if (is_per_channel(spec)) return 1;
  const int64_t g = spec.group_size();
  TORCH_CHECK_VALUE(g <= 0 || g >= n || n % g == 0,
                    "whitening_matrix: expected a group_size that divides ", n, ", got ", g);
  return g > 0 ? std::min(g, n) : n;
}

/// Matrices (…, C, C) and what is on their diagonals as blocks.
class Matrices {
 public:
  Matrices(const Tensor& like, string_view text)
      : Matrices(like, spec_of_function(text, "whitening_matrix")) {}

  MapPointer map() const {
    core::Statistics statistics{samples, core::Vector(algebra_.block() * count_), blocks(like_)};
    TORCH_CHECK(core::all_finite(statistics.covariance.values()),
                "whitening_matrix: expected finite covariances, got NaN or infinite values");
    return std::make_shared<const core::LayerMap>(
        algebra_.map(std::move(statistics), {}, kernels::real_of(like_)));
  }

  /// ∇Σ from ∇T
  core::BlockMatrix pullback(const core::LayerMap& map, const Tensor& dT) const {
    core::GradientSums sums{blocks(dT), core::Vector(map.mean.size())};
    return algebra_.pullback(map, map.affine, std::move(sums), {false, true}).input.Q;
  }

  core::BlockMatrix blocks(const Tensor& matrices) const {
    core::BlockMatrix out(width_ * count_, width_);
    out.values() = kernels::to_vector(diagonal_blocks(matrices));
    return out;
  }

  /// In the type, sizes and place of the covariances.
  Tensor tensor(const core::BlockMatrix& blocks) const {
    const Tensor values =
        kernels::to_tensor(blocks.values()).to(like_.options().requires_grad(false));
    if (like_.size(-1) == width_) return values.view(like_.sizes());
    Tensor out = at::zeros(like_.sizes(), values.options());
    const Tensor target = diagonal_blocks(out);
    target.copy_(values.view(target.sizes()));
    return out;
  }

 private:
  Matrices(const Tensor& like, const LayerSpec& spec)
      : like_(like.detach()),
        width_(width_of(spec, like.size(-1))),
        count_(like.numel() / (like.size(-1) * width_)),
        algebra_(spec.with_group_size(is_per_channel(spec) ? 0 : width_), width_ * count_) {}

  /// (…, C, C) as a view (batch, groups, width, width).
  Tensor diagonal_blocks(const Tensor& m) const {
    const int64_t groups = m.size(-1) / width_;
    return m.reshape({-1, groups, width_, groups, width_}).diagonal(0, 1, 3).permute({0, 3, 1, 2});
  }

  static constexpr double samples = 2;  // Q = (2/M) ∇Σ is then ∇Σ
  Tensor like_;
  int64_t width_, count_;
  core::LayerAlgebra algebra_;
};

void check_matrices(const Tensor& covariance, string_view text) {
  static_cast<void>(spec_of_function(text, "whitening_matrix"));
  TORCH_CHECK_VALUE(covariance.dim() >= 2 && covariance.size(-1) == covariance.size(-2),
                    "whitening_matrix: expected square matrices (…, C, C), got size ",
                    covariance.sizes());
  TORCH_CHECK(at::isFloatingType(covariance.scalar_type()),
              "whitening_matrix: expected a floating type, got ", covariance.scalar_type());
}

Tensor no_tape(const Tensor& like) {
  return at::empty({0}, like.is_meta() ? like.options().dtype(at::kDouble).requires_grad(false)
                                       : at::TensorOptions(at::kDouble));
}

}  // namespace

namespace values {

Tensors2 whitening_matrix(const Tensor& covariance, string_view spec) {
  check_matrices(covariance, spec);
  if (covariance.numel() == 0) return {at::empty_like(covariance), no_tape(covariance)};
  const Matrices matrices(covariance, spec);
  const MapPointer map = matrices.map();
  return {matrices.tensor(map->T), tape_of({}, {map, {}})};
}

Tensor whitening_matrix_backward(const Tensor& grad, const Tensor& covariance, const Tensor& tape,
                                 string_view spec) {
  check_matrices(covariance, spec);
  TORCH_CHECK(grad.sizes() == covariance.sizes(), "whitening_matrix: expected a gradient of size ",
              covariance.sizes(), ", got ", grad.sizes());
  if (covariance.numel() == 0) return at::empty_like(covariance);
  const Matrices matrices(covariance, spec);
  const MapPointer made = kept_by(tape).map;
  const MapPointer map = made ? made : matrices.map();
  return matrices.tensor(matrices.pullback(*map, grad));
}

}  // namespace values

namespace meta {

Tensors2 whitening_matrix(const Tensor& covariance, string_view spec) {
  check_matrices(covariance, spec);
  return {at::empty_like(covariance), no_tape(covariance)};
}
Tensor whitening_matrix_backward(const Tensor&, const Tensor& covariance, const Tensor&,
                                 string_view) {
  return at::empty_like(covariance);
}

}  // namespace meta

namespace autograd {

/// With the map in torch's operations, so that T and μ have a history too.
Tensors3 whiten(const Tensor& x, string_view text, bool return_map) {
  static const auto train = find_operator<Train>("orthobatch::train");
  static const auto matrix = find_operator<WhiteningMatrix>("orthobatch::whitening_matrix");
  const LayerSpec spec = spec_of_function(text, "whiten");
  TORCH_CHECK_VALUE(x.dim() >= 2 && x.dim() <= 5,
                    "whiten: expected input of two to five dimensions, got ", x.dim());
  if (!return_map) {
    Layer layer;
    layer.dims = std::max<int64_t>(1, x.dim() - 2);
    layer.num_features = x.size(1);
    layer.spec = spec;
    layer.name = "whiten";
    Tensor z = std::get<0>(train.call(x, {}, {}, {}, layer.text(), {}, {}, {}, {}));
    const Tensor none = at::empty({0}, x.options().requires_grad(false));
    return {std::move(z), none, none};
  }
  const Tensor last = x.movedim(1, -1), rows = last.reshape({-1, x.size(1)}).to(at::kDouble);
  TORCH_CHECK_VALUE(rows.size(0) > 1,
                    "whiten: expected more than 1 value per channel, got input size ", x.sizes());
  const Tensor mean = rows.mean(0), centered = rows - mean;
  const Tensor T = std::get<0>(matrix.call(centered.t().mm(centered) / rows.size(0), text));
  const Tensor z = centered.mm(T.t()).view(last.sizes()).movedim(-1, 1);
  return {z.to(x.scalar_type()), T.to(x.scalar_type()), mean.to(x.scalar_type())};
}

}  // namespace autograd
}  // namespace orthobatch::ops
