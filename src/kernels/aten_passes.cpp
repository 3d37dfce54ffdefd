// The passes in ATen operations: correct on any device, fast on none in particular. There is
// no GPU among our machines, so on CUDA this path is untested; the tests hold it to the CPU
// kernels on CPU tensors.

#include <ATen/ATen.h>

#include <limits>

#include "kernels/convert.h"
#include "kernels/passes.h"

namespace orthobatch::kernels {
namespace {

/// (batch, N, …) as N × M.
at::Tensor rows(const at::Tensor& x) { return x.transpose(0, 1).reshape({x.size(1), -1}); }

/// N × M back to the shape and layout of `like`.
at::Tensor unrows(const at::Tensor& z, const at::Tensor& like) {
  std::vector<int64_t> shape = like.sizes().vec();
  std::swap(shape[0], shape[1]);
  return at::empty_like(like).copy_(z.reshape(shape).transpose(0, 1));
}

at::Tensor column(const Vector& v, const at::TensorOptions& options) {
  return to_tensor(v).to(options).unsqueeze(1);
}

at::Tensor dense(const BlockMatrix& m, const at::TensorOptions& options) {
  return to_tensor(m.dense()).to(options);
}

BlockMatrix to_blocks(const at::Tensor& t, int64_t block) {
  return BlockMatrix::from_dense(to_matrix(t), block);
}

class AtenPasses : public Passes {
 public:
  Statistics moments(const at::Tensor& x, int64_t block) const override {
    const at::Tensor X = rows(x).to(at::kDouble);
    const at::Tensor mean = X.mean(1, /*keepdim=*/true);
    const at::Tensor centered = X - mean;
    return {static_cast<double>(X.size(1)), to_vector(mean),
            to_blocks(at::mm(centered, centered.t()) / X.size(1), block)};
  }

  at::Tensor transform(const at::Tensor& x, const AffineMap& map) const override {
    const at::TensorOptions type =
        map.sums == Sums::in_double ? x.options().dtype(at::kDouble) : x.options();
    const at::Tensor X = rows(x).to(type) - column(map.center, type);
    return unrows(at::mm(dense(map.P, type), X) + column(map.offset, type), x);
  }

  GradientSums products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                        int64_t block, Sums) const override {
    const at::Tensor G = rows(g).to(at::kDouble);
    const at::Tensor X = rows(x).to(at::kDouble) - column(center, x.options().dtype(at::kDouble));
    return {to_blocks(at::mm(G, X.t()), block), to_vector(G.sum(1))};
  }

  at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x,
                            const GradientMap& map) const override {
    // In double: Q goes with 1/σ² and need not fit float's range.
    const at::TensorOptions type = g.options().dtype(at::kDouble);
    at::Tensor out = at::mm(dense(map.P, type).t(), rows(g).to(type)) + column(map.offset, type);
    if (!map.Q.empty())
      out = out + at::mm(dense(map.Q, type), rows(x).to(type) - column(map.center, type));
    return rounded(out, g);
  }

  void add_statistics_gradient(at::Tensor& dx, const at::Tensor& x,
                               const GradientMap& map) const override {
    const at::TensorOptions type = dx.options().dtype(at::kDouble);
    dx.copy_(rounded(rows(dx).to(type) + column(map.offset, type) +
                         at::mm(dense(map.Q, type), rows(x).to(type) - column(map.center, type)),
                     dx));
  }

  Vector channel_sums(const at::Tensor& g) const override {
    return to_vector(rows(g).to(at::kDouble).sum(1));
  }

  Vector dots(const at::Tensor& x, const Vector& v, int64_t groups) const override {
    const at::TensorOptions type = x.options().dtype(at::kDouble);
    const at::Tensor terms = rows(x).to(type) * column(v, type);
    return to_vector(terms.view({groups, -1, terms.size(1)}).sum(1).t());
  }

  Vector weighted_sums(const at::Tensor& x, const Vector& w, int64_t groups) const override {
    const at::TensorOptions type = x.options().dtype(at::kDouble);
    const at::Tensor X = rows(x).to(type);
    const at::Tensor by_group = to_tensor(w).to(type).view({-1, groups}).t().unsqueeze(1);
    return to_vector((X.view({groups, -1, X.size(1)}) * by_group).sum(2));
  }

 private:
  /// N × M in double as a tensor like another, numbers beyond its type's range its largest.
  static at::Tensor rounded(at::Tensor out, const at::Tensor& like) {
    if (like.scalar_type() == at::kFloat)
      out.clamp_(std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
    return unrows(out, like);
  }
};

}  // namespace

const Passes& aten_passes() {
  static const AtenPasses passes;
  return passes;
}

}  // namespace orthobatch::kernels
