// The passes in ATen's operations, for data on any device. Float data are multiplied in float, and
// the products of chunks of samples are summed in double; where the map says that terms cancel, a
// part of the batch at a time is computed in double. Nothing of the input's size is made but in its
// own type, and only where something is subtracted.
//
// Data are used as they lie: (M, N) rows of samples in channels_last, (batch, N, places) images else.
// Blocks of one width are one batched product. Their entries come as one tensor of a block matrix's
// values.

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <algorithm>
#include <limits>

#include "kernels/convert.h"
#include "kernels/passes.h"

namespace orthobatch::kernels {
namespace {

using at::Tensor;

/// Neighbouring blocks of one width: all but a smaller last one, and that.
struct Part {
  int64_t first, groups, width;  // channels from `first` on
  int64_t at;                    // of its entries among the values

  int64_t channels() const { return groups * width; }
  int64_t entries() const { return groups * width * width; }
};

std::vector<Part> parts_of(int64_t n, int64_t block) {
  const int64_t full = n / block, rest = n % block;
  std::vector<Part> out;
  if (full > 0) out.push_back({0, full, block, 0});
  if (rest > 0) out.push_back({full * block, 1, rest, full * block * block});
  return out;
}

bool sample_major(const Tensor& x) { return x.movedim(1, -1).is_contiguous(); }
/// (M, N): a view of sample-major data.
Tensor rows(const Tensor& x) { return x.movedim(1, -1).reshape({-1, x.size(1)}); }
/// (batch, N, places): a view of channel-major data.
Tensor images(const Tensor& x) { return x.reshape({x.size(0), x.size(1), -1}); }

/// (groups, M, width), a view.
Tensor by_group(const Tensor& rows, const Part& p) {
  return rows.narrow(1, p.first, p.channels())
      .view({rows.size(0), p.groups, p.width})
      .transpose(0, 1);
}
/// (groups, width, width)
Tensor matrices(const Tensor& values, const Part& p) {
  return values.narrow(0, p.at, p.entries()).view({p.groups, p.width, p.width});
}
/// A value for each channel, against (batch, N, …).
Tensor by_channel(const Tensor& v, const Tensor& like) {
  std::vector<int64_t> sizes(like.dim(), 1);
  sizes[1] = v.numel();
  return v.view(sizes);
}

Tensor in_exact(const Tensor& t) { return t.to(exact_type(t.device())); }

/// x less a value for each channel; x itself where that is undefined.
Tensor centered(const Tensor& x, const Tensor& center) {
  return center.defined() ? x - by_channel(center, x) : x;
}

/// out += op(M) in for M with blocks of that width; out and in have one dense layout.
void accumulate(Tensor& out, const Tensor& values, int64_t block, bool transpose, const Tensor& in) {
  if (block == 1) {
    out.addcmul_(in, by_channel(values, in));
    return;
  }
  const bool by_rows = sample_major(in);
  Tensor to = by_rows ? rows(out) : images(out);
  const Tensor from = by_rows ? rows(in) : images(in);
  for (const Part& p : parts_of(in.size(1), block)) {
    Tensor m = matrices(values, p);
    if (transpose != by_rows) m = m.transpose(1, 2);
    if (by_rows) {
      by_group(to, p).baddbmm_(by_group(from, p), m);
      continue;
    }
    const int64_t batch = from.size(0), places = from.size(2), all = batch * p.groups;
    if (p.groups == 1) {
      to.narrow(1, p.first, p.width)
          .baddbmm_(m.expand({batch, p.width, p.width}), from.narrow(1, p.first, p.width));
    } else if (p.channels() == from.size(1)) {
      m = m.unsqueeze(0).expand({batch, p.groups, p.width, p.width});
      to.view({all, p.width, places})
          .baddbmm_(m.reshape({all, p.width, p.width}), from.view({all, p.width, places}));
    } else {  // beside a smaller last block
      const std::vector<int64_t> sizes = {batch, p.groups, p.width, places};
      to.narrow(1, p.first, p.channels())
          .view(sizes)
          .add_(at::matmul(m, from.narrow(1, p.first, p.channels()).view(sizes)));
    }
  }
}

/// As many samples as a product sums in its own type: enough to be fast, few enough for float.
int64_t chunk_of(int64_t samples, int64_t width) {
  return std::max({int64_t{2048}, 4 * width, (samples + 31) / 32});
}

/// The sum over the first dimension in the exact type.
Tensor exact_sum(const Tensor& parts) { return parts.sum(0, false, exact_type(parts.device())); }

/// The sum of each channel over all samples.
Tensor sums(const Tensor& t) {
  if (!sample_major(t)) return exact_sum(images(t).sum(2));
  const Tensor all = rows(t);
  const int64_t samples = all.size(0), chunk = chunk_of(samples, 1), whole = samples / chunk;
  if (whole <= 1) return in_exact(all.sum(0));
  Tensor parts = all.narrow(0, 0, whole * chunk).view({whole, chunk, -1}).sum(1);
  if (const int64_t rest = samples % chunk)
    parts = at::cat({parts, all.narrow(0, whole * chunk, rest).sum(0, /*keepdim=*/true)});
  return exact_sum(parts);
}

/// A Bᵀ in blocks: their entries as one tensor.
Tensor block_products(const Tensor& a, const Tensor& b, int64_t block) {
  if (block == 1) return sums(a * b);
  std::vector<Tensor> out;
  const int64_t n = a.size(1);
  const bool by_images = !sample_major(a) && a.numel() / (a.size(0) * n) >= 4 * block;
  for (const Part& p : parts_of(n, block)) {
    if (by_images) {
      const int64_t batch = a.size(0), all = batch * p.groups;
      const auto of = [&](const Tensor& t) {
        return images(t).narrow(1, p.first, p.channels()).reshape({all, p.width, -1});
      };
      out.push_back(exact_sum(at::bmm(of(a), of(b).transpose(1, 2))
                                  .view({batch, p.groups, p.width, p.width})));
    } else {
      const Tensor from = by_group(rows(a), p).transpose(1, 2), with = by_group(rows(b), p);
      const int64_t samples = with.size(1), chunk = chunk_of(samples, p.width);
      std::vector<Tensor> parts;
      for (int64_t at = 0; at < samples; at += chunk) {
        const int64_t count = std::min(chunk, samples - at);
        parts.push_back(at::bmm(from.narrow(2, at, count), with.narrow(1, at, count)));
      }
      out.push_back(parts.size() == 1 ? in_exact(parts[0]) : exact_sum(at::stack(parts)));
    }
    out.back() = out.back().reshape({-1});
  }
  return out.size() == 1 ? out[0] : at::cat(out);
}

/// A few samples give a mean to shift by: the first plus a mean difference, so that of a constant
/// channel it is the value itself.
Tensor shift_of(const Tensor& x) {
  const Tensor t = sample_major(x) ? rows(x).unsqueeze(2) : images(x);
  const int64_t batch = t.size(0), places = t.size(2), many = std::min<int64_t>(64, batch),
                each = std::min<int64_t>(std::max<int64_t>(1, 64 / many), places);
  const Tensor first = t.narrow(0, 0, 1).narrow(2, 0, 1);
  const Tensor few = t.slice(0, 0, many * (batch / many), batch / many)
                         .slice(2, 0, each * (places / each), places / each);
  return (first + (few - first).mean(std::vector<int64_t>{0, 2}, true)).reshape({-1});
}

/// work(part of the batch), so many samples that a part in double stays small.
template <typename Work>
void in_parts(const Tensor& x, const Work& work) {
  constexpr int64_t values = int64_t{1} << 20;
  const int64_t each = std::max<int64_t>(1, values / std::max<int64_t>(1, x.numel() / x.size(0)));
  for (int64_t at = 0; at < x.size(0); at += each)
    work(at, std::min(each, x.size(0) - at));
}

/// Whether float data are to be computed in double.
bool goes_to_double(const Tensor& x, at::ScalarType type) {
  return type == at::kDouble && x.scalar_type() != at::kDouble;
}

/// `part` in the place of those samples, numbers beyond the type's range its largest.
void put(Tensor to, const Tensor& part) {
  constexpr double largest = std::numeric_limits<float>::max();
  to.copy_(part.clamp(-largest, largest));
}

at::ScalarType type_of(const Tensor& x, Sums sums) {
  return sums == Sums::in_double ? exact_type(x.device()) : x.scalar_type();
}

Tensor or_undefined(const Vector& v, const Tensor& t) {
  const bool zero = std::all_of(v.begin(), v.end(), [](double d) { return d == 0; });
  return zero ? Tensor() : t;
}

Tensor filled(const Tensor& like, const Tensor& offset) {
  Tensor out = at::empty_like(like);
  return offset.defined() ? out.copy_(by_channel(offset, like).expand_as(like)) : out.zero_();
}

class AtenPasses : public Passes {
 public:
  Statistics moments(const Tensor& x, int64_t block, Sums sums_in, Along* along) const override {
    const at::NoTF32Guard exact_products;
    const double samples = static_cast<double>(x.numel() / x.size(1));
    const Tensor shift = shift_of(x);
    Tensor sum, squares;
    const auto add = [&](const Tensor& part) {
      const Tensor y = part - by_channel(shift.to(part.scalar_type()), part);
      const Tensor s = sums(y), p = block_products(y, y, block);
      sum = sum.defined() ? sum + s : s;
      squares = squares.defined() ? squares + p : p;
    };
    if (goes_to_double(x, type_of(x, sums_in)))
      in_parts(x, [&](int64_t at, int64_t n) { add(x.narrow(0, at, n).to(at::kDouble)); });
    else
      add(x);
    std::vector<Tensor> all = {shift, sum, squares};
    if (along) all.insert(all.end(), along->tensors.begin(), along->tensors.end());
    std::vector<Vector> values = to_vectors(all);
    if (along) along->values.assign(values.begin() + 3, values.end());
    Statistics out{samples, std::move(values[0]), BlockMatrix(x.size(1), block)};
    Vector& excess = values[1];
    for (size_t c = 0; c < excess.size(); ++c) out.mean[c] += excess[c] /= samples;
    BlockMatrix& cov = out.covariance;
    cov.values() = std::move(values[2]);
    for (int64_t b = 0; b < cov.count(); ++b)
      for (int64_t i = 0, width = cov.width(b), first = cov.offset(b); i < width; ++i)
        for (int64_t j = 0; j <= i; ++j) {
          double& value = cov.data(b)[i * width + j];
          value = value / samples - excess[first + i] * excess[first + j];
          if (i == j) value = value < 0 ? 0.0 : value;
          cov.data(b)[j * width + i] = value;
        }
    return out;
  }

  Tensor transform(const Tensor& x, const AffineMap& map, const Placed& placed) const override {
    const at::NoTF32Guard exact_products;
    const Placed m = placed.P.defined() ? placed : place(map, x);
    const auto of = [&](const Tensor& part) {
      Tensor out = filled(part, m.offset);
      accumulate(out, m.P, map.P.block(), false, centered(part, m.center));
      return out;
    };
    const at::ScalarType type = m.P.scalar_type();
    if (!goes_to_double(x, type)) return of(x);
    Tensor out = at::empty_like(x);
    in_parts(x, [&](int64_t at, int64_t n) {
      put(out.narrow(0, at, n), of(x.narrow(0, at, n).to(type)));
    });
    return out;
  }

  GradientSums products(const Tensor& g, const Tensor& x, const Vector& center, int64_t block,
                        Sums sums_in, const Placed& placed) const override {
    const at::NoTF32Guard exact_products;
    const at::ScalarType type = type_of(x, sums_in);
    Tensor c = placed.center;
    if (!placed.P.defined())
      c = or_undefined(center, to_device({&center}, x.device())[0]).to(type);
    Tensor B, sum;
    const auto add = [&](const Tensor& from, const Tensor& with) {
      const Tensor p = block_products(from, centered(with, c), block), s = sums(from);
      B = B.defined() ? B + p : p;
      sum = sum.defined() ? sum + s : s;
    };
    if (goes_to_double(x, type))
      in_parts(x, [&](int64_t at, int64_t n) {
        add(g.narrow(0, at, n).to(type), x.narrow(0, at, n).to(type));
      });
    else
      add(g, x);
    return to_sums(B, sum, x.size(1), block);
  }

  Tensor input_gradient(const Tensor& g, const Tensor& x, const GradientMap& map,
                        const Placed& placed) const override {
    const at::NoTF32Guard exact_products;
    const Placed m = placed.P.defined() ? placed : place(map, g);
    const auto of = [&](const Tensor& dz, const Tensor& part) {
      Tensor out = filled(dz, m.offset);
      accumulate(out, m.P, map.P.block(), true, dz);
      if (!map.Q.empty()) accumulate(out, m.Q, map.Q.block(), false, scaled(part, m, map.scale));
      return out;
    };
    const at::ScalarType type = m.P.scalar_type();
    if (!goes_to_double(g, type)) return of(g, x);
    Tensor out = at::empty_like(g);
    in_parts(g, [&](int64_t at, int64_t n) {
      put(out.narrow(0, at, n),
          of(g.narrow(0, at, n).to(type), map.Q.empty() ? x : x.narrow(0, at, n).to(type)));
    });
    return out;
  }

  void add_statistics_gradient(Tensor& dx, const Tensor& x, const GradientMap& map,
                               const Placed& placed) const override {
    const at::NoTF32Guard exact_products;
    const Placed m = placed.Q.defined() ? placed : place(map, x);
    const auto add = [&](Tensor& to, const Tensor& part) {
      if (m.offset.defined()) to.add_(by_channel(m.offset, to));
      accumulate(to, m.Q, map.Q.block(), false, scaled(part, m, map.scale));
    };
    const at::ScalarType type = m.Q.scalar_type();
    if (!goes_to_double(x, type)) return add(dx, x);
    in_parts(x, [&](int64_t at, int64_t n) {
      Tensor part = dx.narrow(0, at, n).to(type);
      add(part, x.narrow(0, at, n).to(type));
      put(dx.narrow(0, at, n), part);
    });
  }

  Tensor channel_sums(const Tensor& g) const override { return sums(g); }

  Tensor dots(const Tensor& x, const Vector& v, int64_t groups,
              const Tensor& placed) const override {
    const Tensor values = placed.defined() ? placed : to_device({&v}, x.device())[0];
    const Tensor terms = images(x) * by_channel(values.to(x.scalar_type()), images(x));
    const Tensor by_group = terms.view({x.size(0), groups, x.size(1) / groups, -1}).sum(2);
    return in_exact(by_group.transpose(1, 2).reshape({-1, groups}));
  }

  GradientSums weight_products(const Tensor& w, const Tensor& folded, const Tensor& by_sample,
                               int64_t block, int64_t groups) const override {
    const at::NoTF32Guard exact_products;
    const Tensor by_place = by_sample.to(w.scalar_type())
                                .view({w.size(0), -1, groups})
                                .transpose(1, 2)
                                .unsqueeze(2);  // (samples, groups, 1, places)
    const Tensor apart = images(w).view({w.size(0), groups, w.size(1) / groups, -1});
    const Tensor sum = exact_sum((apart * by_place).sum(3)).reshape({-1});
    return to_sums(block_products(w, folded, block), sum, w.size(1), block);
  }

 private:
  static GradientSums to_sums(const Tensor& B, const Tensor& sum, int64_t n, int64_t block) {
    std::vector<Vector> values = to_vectors({B, sum});
    GradientSums out{BlockMatrix(n, block), std::move(values[1])};
    out.B.values() = std::move(values[0]);
    return out;
  }

  /// (X − center) / scale
  static Tensor scaled(const Tensor& x, const Placed& m, double scale) {
    const Tensor y = centered(x, m.center);
    return scale == 1 ? y : y * (1 / scale);
  }

  static Placed place(const AffineMap& map, const Tensor& like) {
    return kernels::place(map, like);
  }
  static Placed place(const GradientMap& map, const Tensor& like) {
    BlockMatrix Q = map.Q;
    Q *= map.scale;
    const std::vector<Tensor> values =
        to_device({&map.P.values(), &map.center, &map.offset, &Q.values()}, like.device());
    const at::ScalarType type = type_of(like, map.sums);
    return {values[0].to(type), values[3].to(type),
            or_undefined(map.center, values[1].to(type)),
            or_undefined(map.offset, values[2].to(type))};
  }
};

}  // namespace

Placed place(const AffineMap& map, const Tensor& like) {
  const std::vector<Tensor> values =
      to_device({&map.P.values(), &map.center, &map.offset}, like.device());
  return placed_map(map, values.data(), like);
}

Placed placed_map(const AffineMap& map, const Tensor* values, const Tensor& like) {
  const at::ScalarType type = type_of(like, map.sums);
  return {values[0].to(type),
          {},
          or_undefined(map.center, values[1].to(type)),
          or_undefined(map.offset, values[2].to(type))};
}

Tensor transposed_blocks(const Tensor& values, int64_t n, int64_t block) {
  std::vector<Tensor> out;
  for (const Part& p : parts_of(n, block))
    out.push_back(matrices(values, p).transpose(1, 2).reshape({-1}));
  return at::cat(out);
}

const Passes& aten_passes() {
  static const AtenPasses passes;
  return passes;
}

}  // namespace orthobatch::kernels
