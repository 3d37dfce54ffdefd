// The four passes on the CPU: each thread walks its range of tiles once; products over samples run
// as GEMMs on tiles that stay in cache, and are summed across tiles in double.

#include <ATen/Dispatch.h>
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <type_traits>

#include "core/linalg.h"
#include "kernels/passes.h"
#include "kernels/rank_update.h"
#include "kernels/tiles.h"

namespace orthobatch::kernels {
namespace {

using linalg::Op;

/// visit(channel, index in the tensor, index in a packed copy of the tile), in order of memory. The
/// packed copy is samples × N (sample-major) or N × samples.
template <typename Visit>
void for_each_value(const Layout& layout, const Tile& tile, const Visit& visit) {
  const int64_t n = layout.channels, m = tile.samples;
  if (layout.sample_major) {
    for (int64_t s = 0; s < m; ++s)
      for (int64_t c = 0; c < n; ++c) visit(c, tile.offset + s * tile.stride + c, s * n + c);
  } else {
    for (int64_t c = 0; c < n; ++c)
      for (int64_t s = 0; s < m; ++s) visit(c, tile.offset + c * tile.stride + s, c * m + s);
  }
}

template <typename T>
std::vector<T> cast(const Vector& v) {
  return {v.begin(), v.end()};
}

/// Packed or strided tile of one group of channels, as an operand of gemm.
struct Operand {
  int64_t offset;
  int64_t stride;
};
Operand group(const Layout& layout, int64_t tile_offset, int64_t stride, int64_t first_channel) {
  return {tile_offset + first_channel * (layout.sample_major ? 1 : stride), stride};
}

/// out ← op(M) data + beta · out for one group of channels, in either layout.
template <typename T>
void apply(const Layout& layout, Op op, const T* m, int64_t width, int64_t samples, const T* data,
           Operand in, T beta, T* out, Operand to) {
  const Op other = op == Op::none ? Op::transpose : Op::none;
  if (layout.sample_major)  // rows are samples: out = data · op(M)ᵀ
    linalg::gemm(Op::none, other, samples, width, width, T(1), data + in.offset, in.stride, m,
                 width, beta, out + to.offset, to.stride);
  else
    linalg::gemm(op, Op::none, width, samples, width, T(1), m, width, data + in.offset, in.stride,
                 beta, out + to.offset, to.stride);
}

/// A few samples spread over the batch give an estimate of the mean good enough to shift by. Taken
/// as the first sample plus a mean difference and rounded to T, it is the value itself for a
/// constant channel, whose variance then comes out as 0.
template <typename T>
Vector shift_estimate(const T* x, const Layout& layout) {
  const int64_t count = std::min<int64_t>(64, layout.samples()), n = layout.channels;
  const auto value = [&](int64_t sample, int64_t c) -> double {
    if (layout.sample_major) return x[sample * n + c];
    return x[(sample / layout.inner * n + c) * layout.inner + sample % layout.inner];
  };
  Vector shift(n);
  for (int64_t k = 0; k < count; ++k)
    for (int64_t c = 0; c < n; ++c)
      shift[c] += value(k * layout.samples() / count, c) - value(0, c);
  for (int64_t c = 0; c < n; ++c)
    shift[c] = static_cast<T>(value(0, c) + shift[c] / static_cast<double>(count));
  return shift;
}

/// Sums of (x − shift) and of its products; the second in blocks, lower triangles alone.
template <typename T>
void accumulate_moments(const T* x, const Layout& layout, const Tile& tile, const Vector& shift,
                        Vector& packed, Vector& sum, BlockMatrix& squares) {
  const int64_t n = layout.channels;
  if (squares.block() == 1) {
    double* square = squares.data(0);
    for_each_value(layout, tile, [&](int64_t c, int64_t at, int64_t) {
      const double d = static_cast<double>(x[at]) - shift[c];
      sum[c] += d;
      square[c] += d * d;
    });
    return;
  }
  for_each_value(layout, tile, [&](int64_t c, int64_t at, int64_t to) {
    const double d = static_cast<double>(x[at]) - shift[c];
    // Sample by sample in either layout, as rank_update reads it.
    packed[layout.sample_major ? to : (at - tile.offset - c * tile.stride) * n + c] = d;
    sum[c] += d;
  });
  for (int64_t b = 0; b < squares.count(); ++b)
    rank_update(packed.data() + squares.offset(b), tile.samples, squares.width(b), n,
                squares.data(b));
}

template <typename T>
Moments moments_of(const at::Tensor& x, int64_t block) {
  const Layout layout = layout_of(x);
  const Tiling tiling(layout, sizeof(double));
  const T* data = x.data_ptr<T>();
  const int64_t n = layout.channels;
  const Vector shift = shift_estimate(data, layout);

  std::vector<Vector> sums(tiling.ranges(), Vector(n));
  std::vector<BlockMatrix> squares(tiling.ranges(), BlockMatrix(n, block));
  tiling.for_ranges([&](int64_t r, int64_t begin, int64_t end) {
    Vector packed(block == 1 ? 0 : tiling.max_samples() * n);
    for (int64_t t = begin; t < end; ++t)
      accumulate_moments(data, layout, tiling[t], shift, packed, sums[r], squares[r]);
  });
  for (size_t r = 1; r < sums.size(); ++r) {
    for (int64_t c = 0; c < n; ++c) sums[0][c] += sums[r][c];
    squares[0] += squares[r];
  }

  // Σ = S/M − (μ−shift)(μ−shift)ᵀ, the lower triangle mirrored.
  const double m = static_cast<double>(layout.samples());
  Moments out{Vector(n), std::move(squares[0])};
  Vector& excess = sums[0];
  for (int64_t c = 0; c < n; ++c) {
    excess[c] /= m;
    out.mean[c] = shift[c] + excess[c];
  }
  BlockMatrix& cov = out.covariance;
  for (int64_t b = 0; b < cov.count(); ++b) {
    const int64_t width = cov.width(b), first = cov.offset(b);
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double& value = cov.data(b)[i * width + j];
        value = value / m - excess[first + i] * excess[first + j];
        if (i == j) value = value < 0 ? 0.0 : value;
        cov.data(b)[j * width + i] = value;
      }
  }
  return out;
}

/// T is the type of the data, S the type of the sums: the same, or double for float data.
template <typename T, typename S>
at::Tensor transform_of(const at::Tensor& x, const BlockMatrix& P, const Vector& center,
                        const Vector& offset) {
  const Layout layout = layout_of(x);
  const Tiling tiling(layout, sizeof(S));
  at::Tensor z = at::empty_like(x);
  const T* in = x.data_ptr<T>();
  T* out = z.data_ptr<T>();
  const std::vector<S> p = cast<S>(P.values()), mu = cast<S>(center), q = cast<S>(offset);
  constexpr bool direct = std::is_same_v<T, S>;  // products go straight to the output

  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    const int64_t values = P.block() == 1 ? 0 : tiling.max_samples() * layout.channels;
    std::vector<S> packed(values), result(direct ? 0 : values);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      if (P.block() == 1) {
        for_each_value(layout, tile, [&](int64_t c, int64_t at, int64_t) {
          out[at] = static_cast<T>(p[c] * (in[at] - mu[c]) + q[c]);
        });
        continue;
      }
      const int64_t stride = layout.sample_major ? layout.channels : tile.samples;
      S* target = result.data();
      Tile to = {0, tile.samples, stride};
      if constexpr (direct) {
        target = out;
        to = tile;
      }
      for_each_value(layout, tile, [&](int64_t c, int64_t at, int64_t index) {
        packed[index] = in[at] - mu[c];
        target[direct ? at : index] = q[c];
      });
      for (int64_t b = 0; b < P.count(); ++b)
        apply(layout, Op::none, p.data() + (P.data(b) - P.data(0)), P.width(b), tile.samples,
              packed.data(), group(layout, 0, stride, P.offset(b)), S(1), target,
              group(layout, to.offset, to.stride, P.offset(b)));
      if constexpr (!direct)
        for_each_value(layout, tile, [&](int64_t, int64_t at, int64_t index) {
          out[at] = static_cast<T>(result[index]);
        });
    }
  });
  return z;
}

template <typename T>
Products products_of(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                     int64_t block) {
  const Layout layout = layout_of(x);
  const Tiling tiling(layout, sizeof(T));
  const T* grad = g.data_ptr<T>();
  const T* data = x.data_ptr<T>();
  const int64_t n = layout.channels;
  const std::vector<T> mu = cast<T>(center);

  std::vector<Products> parts(tiling.ranges(), {BlockMatrix(n, block), Vector(n)});
  tiling.for_ranges([&](int64_t r, int64_t begin, int64_t end) {
    BlockMatrix& B = parts[r].B;
    Vector& sum = parts[r].sum;
    std::vector<T> packed(block == 1 ? 0 : tiling.max_samples() * n);
    std::vector<T> product(block == 1 ? 0 : block * block);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      if (block == 1) {
        double* diagonal = B.data(0);
        for_each_value(layout, tile, [&](int64_t c, int64_t at, int64_t) {
          sum[c] += grad[at];
          diagonal[c] += static_cast<double>(grad[at]) * (data[at] - mu[c]);
        });
        continue;
      }
      for_each_value(layout, tile, [&](int64_t c, int64_t at, int64_t to) {
        packed[to] = data[at] - mu[c];
        sum[c] += grad[at];
      });
      const int64_t stride = layout.sample_major ? n : tile.samples;
      for (int64_t b = 0; b < B.count(); ++b) {
        const int64_t width = B.width(b);
        const Operand lhs = group(layout, tile.offset, tile.stride, B.offset(b));
        const Operand rhs = group(layout, 0, stride, B.offset(b));
        linalg::gemm(layout.sample_major ? Op::transpose : Op::none,
                     layout.sample_major ? Op::none : Op::transpose, width, width, tile.samples,
                     T(1), grad + lhs.offset, lhs.stride, packed.data() + rhs.offset, rhs.stride,
                     T(0), product.data(), width);
        double* target = B.data(b);
        for (int64_t k = 0; k < width * width; ++k) target[k] += product[k];
      }
    }
  });
  for (size_t r = 1; r < parts.size(); ++r) {
    parts[0].B += parts[r].B;
    for (int64_t c = 0; c < n; ++c) parts[0].sum[c] += parts[r].sum[c];
  }
  return std::move(parts[0]);
}

/// A power of two s such that Q·s and (X − center)/s are both of moderate size where Q·X is: Q goes
/// with 1/σ², which leaves float's range long before 1/σ does.
double balance(const BlockMatrix& Q) {
  double largest = 0;
  for (double q : Q.values()) largest = std::max(largest, std::abs(q));
  if (!(largest > 0) || std::isinf(largest)) return 1.0;
  return std::exp2(std::round(-0.5 * std::log2(largest)));
}

template <typename T>
at::Tensor input_gradient_of(const at::Tensor& g, const at::Tensor& x, const BlockMatrix& P,
                             const BlockMatrix& Q, const Vector& center, const Vector& offset) {
  const Layout layout = layout_of(g);
  const Tiling tiling(layout, sizeof(T));
  at::Tensor dx = at::empty_like(g);
  const T* grad = g.data_ptr<T>();
  const T* data = Q.empty() ? nullptr : x.data_ptr<T>();
  T* out = dx.data_ptr<T>();
  const double scale = balance(Q);
  BlockMatrix balanced = Q;
  balanced *= scale;
  const T unscale = static_cast<T>(1.0 / scale);
  const std::vector<T> p = cast<T>(P.values()), q = cast<T>(balanced.values());
  const std::vector<T> mu = cast<T>(center), constant = cast<T>(offset);

  tiling.for_ranges([&](int64_t, int64_t begin, int64_t end) {
    std::vector<T> packed(Q.empty() || Q.block() == 1 ? 0 : tiling.max_samples() * layout.channels);
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile = tiling[t];
      // The diagonal parts and the constant first, then the products on top of them.
      for_each_value(layout, tile, [&](int64_t c, int64_t at, int64_t to) {
        T value = constant[c];
        if (P.block() == 1) value += p[c] * grad[at];
        if (!Q.empty()) {
          const T centered = (data[at] - mu[c]) * unscale;
          if (Q.block() == 1)
            value += q[c] * centered;
          else
            packed[to] = centered;
        }
        out[at] = value;
      });
      const int64_t stride = layout.sample_major ? layout.channels : tile.samples;
      for (int64_t b = 0; P.block() > 1 && b < P.count(); ++b) {
        const Operand at = group(layout, tile.offset, tile.stride, P.offset(b));
        apply(layout, Op::transpose, p.data() + (P.data(b) - P.data(0)), P.width(b), tile.samples,
              grad, at, T(1), out, at);
      }
      for (int64_t b = 0; Q.block() > 1 && b < Q.count(); ++b)
        apply(layout, Op::none, q.data() + (Q.data(b) - Q.data(0)), Q.width(b), tile.samples,
              packed.data(), group(layout, 0, stride, Q.offset(b)), T(1), out,
              group(layout, tile.offset, tile.stride, Q.offset(b)));
    }
  });
  return dx;
}

class CpuPasses : public Passes {
 public:
  Moments moments(const at::Tensor& x, int64_t block) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::moments",
                                      [&] { return moments_of<scalar_t>(x, block); });
  }

  at::Tensor transform(const at::Tensor& x, const BlockMatrix& P, const Vector& center,
                       const Vector& offset, Sums sums) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::transform", [&] {
      return sums == Sums::in_double ? transform_of<scalar_t, double>(x, P, center, offset)
                                     : transform_of<scalar_t, scalar_t>(x, P, center, offset);
    });
  }

  Products products(const at::Tensor& g, const at::Tensor& x, const Vector& center,
                    int64_t block) const override {
    return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "orthobatch::products",
                                      [&] { return products_of<scalar_t>(g, x, center, block); });
  }

  at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x, const BlockMatrix& P,
                            const BlockMatrix& Q, const Vector& center,
                            const Vector& offset) const override {
    return AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "orthobatch::input_gradient", [&] {
      return input_gradient_of<scalar_t>(g, x, P, Q, center, offset);
    });
  }
};

}  // namespace

const Passes& cpu_passes() {
  static const CpuPasses passes;
  return passes;
}

}  // namespace orthobatch::kernels
