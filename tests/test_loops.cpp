// The inner loops of every set this processor can run, against sums written out in long double. The
// set `wide` is the one for AVX-512, compiled for what most machines have.

#include "kernels/loops_sets.h"
#include "rooms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

ORTHOBATCH_DECLARE_LOOPS(plain)
#ifdef ORTHOBATCH_X86
ORTHOBATCH_DECLARE_LOOPS(avx2)
ORTHOBATCH_DECLARE_LOOPS(wide)
#endif

namespace orthobatch::kernels {
namespace {

struct Set {
  const char* name;
  const Loops<float>* of_float;
  const Loops<double>* of_double;
  const CovarianceLoops* of_covariance;

  template <typename T>
  const Loops<T>& of() const {
    if constexpr (std::is_same_v<T, float>)
      return *of_float;
    else
      return *of_double;
  }
};

std::vector<Set> sets() {
  std::vector<Set> out = {{"plain", &plain::of_float, &plain::of_double, &plain::of_covariance}};
#ifdef ORTHOBATCH_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    out.push_back({"avx2", &avx2::of_float, &avx2::of_double, &avx2::of_covariance});
    out.push_back({"wide", &wide::of_float, &wide::of_double, &wide::of_covariance});
  }
#endif
  return out;
}

template <typename T>
std::vector<T> random_values(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0.3, 1.0);
  std::vector<T> out(count);
  for (T& v : out) v = static_cast<T>(normal(generator));
  return out;
}

struct Run {
  int64_t count, period;
};
// One channel, few and many; whole vectors and rests; a last period that is cut off.
const std::vector<Run> runs = {{1, 1},   {7, 1},     {64, 1},    {101, 1},    {9, 3},     {48, 16},
                               {61, 16}, {640, 128}, {700, 128}, {1300, 130}, {1311, 130}};

template <typename T>
class LoopsOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(LoopsOf, Types);

template <typename T>
constexpr double within() {
  return std::is_same_v<T, float> ? 1e-6 : 1e-14;
}

TYPED_TEST(LoopsOf, ElementwiseAreTheFormulas) {
  using T = TypeParam;
  for (const Set& set : sets())
    for (const Run& r : runs) {
      SCOPED_TRACE(testing::Message() << set.name << " " << r.count << "/" << r.period);
      const auto g = random_values<T>(r.count, 1), x = random_values<T>(r.count, 2);
      const auto p = random_values<T>(r.period, 3), q = random_values<T>(r.period, 4);
      const auto mu = random_values<T>(r.period, 5), k = random_values<T>(r.period, 6);
      std::vector<T> filled(r.count), centered(r.count), z(r.count), dx(r.count);
      const Loops<T>& loops = set.of<T>();
      loops.fill(r.count, r.period, k.data(), filled.data());
      loops.center(x.data(), r.count, r.period, mu.data(), T(0.5), centered.data());
      loops.transform(x.data(), r.count, r.period, p.data(), mu.data(), k.data(), z.data());
      loops.gradient(g.data(), x.data(), r.count, r.period, p.data(), q.data(), mu.data(), T(0.5),
                     k.data(), dx.data());
      std::vector<T> added = g;
      loops.accumulate(x.data(), r.count, r.period, q.data(), mu.data(), T(0.5), k.data(),
                       added.data());
      for (int64_t i = 0; i < r.count; ++i) {
        const int64_t c = i % r.period;
        const double d = static_cast<double>(x[i]) - mu[c];
        ASSERT_EQ(filled[i], k[c]);
        ASSERT_NEAR(centered[i], 0.5 * d, 4 * within<T>());
        ASSERT_NEAR(z[i], p[c] * d + k[c], 10 * within<T>());
        ASSERT_NEAR(dx[i], static_cast<double>(p[c]) * g[i] + q[c] * 0.5 * d + k[c],
                    10 * within<T>());
        ASSERT_NEAR(added[i], static_cast<double>(g[i]) + q[c] * 0.5 * d + k[c], 10 * within<T>());
      }
    }
}

TYPED_TEST(LoopsOf, SumsAreInDouble) {
  using T = TypeParam;
  for (const Set& set : sets())
    for (const Run& r : runs) {
      SCOPED_TRACE(testing::Message() << set.name << " " << r.count << "/" << r.period);
      const auto g = random_values<T>(r.count, 1), x = random_values<T>(r.count, 2);
      const auto mu = random_values<T>(r.period, 5);
      std::vector<double> sum(r.period, 1.0), first(r.period), square(r.period), total(r.period),
          product(r.period);
      const Loops<T>& loops = set.of<T>();
      loops.sum(g.data(), r.count, r.period, sum.data());
      loops.moments(x.data(), r.count, r.period, mu.data(), first.data(), square.data());
      loops.products(g.data(), x.data(), r.count, r.period, mu.data(), total.data(),
                     product.data());
      for (int64_t c = 0; c < r.period; ++c) {
        long double s = 0, d1 = 0, d2 = 0, gd = 0;
        for (int64_t i = c; i < r.count; i += r.period) {
          const long double d = static_cast<long double>(x[i]) - mu[c];
          s += g[i];
          d1 += d;
          d2 += d * d;
          gd += g[i] * d;
        }
        ASSERT_NEAR(sum[c], 1 + s, 1e-12);  // added to what was there
        ASSERT_NEAR(first[c], d1, 1e-12);
        ASSERT_NEAR(square[c], d2, 1e-12 * (1 + d2));
        ASSERT_NEAR(total[c], s, 1e-12);
        ASSERT_NEAR(product[c], gd, 1e-12 * (1 + std::abs(gd)));
      }
    }
}

/// Σ (a−shift)(b−shift)ᵀ of samples × width values, `stride` apart.
template <typename T>
long double product_at(const std::vector<T>& a, const std::vector<double>& shift_a,
                       const std::vector<T>& b, const std::vector<double>& shift_b, int64_t samples,
                       int64_t stride, int64_t i, int64_t j) {
  long double sum = 0;
  for (int64_t s = 0; s < samples; ++s)
    sum += (static_cast<long double>(a[s * stride + i]) - shift_a[i]) *
           (static_cast<long double>(b[s * stride + j]) - shift_b[j]);
  return sum;
}

/// A row per channel.
template <typename T>
std::vector<T> transposed(const std::vector<T>& x, int64_t samples, int64_t stride, int64_t width) {
  std::vector<T> out(samples * width);
  for (int64_t s = 0; s < samples; ++s)
    for (int64_t c = 0; c < width; ++c) out[c * samples + s] = x[s * stride + c];
  return out;
}

TYPED_TEST(LoopsOf, CovarianceOfPanelsAndOfRowsIsTheSum) {
  using T = TypeParam;
  for (const Set& set : sets())
    for (const int64_t width : {1, 3, 4, 8, 13, 16, 29, 48})
      for (const int64_t samples : {1, 6, 37, 128}) {
        SCOPED_TRACE(testing::Message() << set.name << " " << samples << "x" << width);
        const CovarianceLoops& multiply = *set.of_covariance;
        const int64_t stride = width + 2, lanes = multiply.lanes;
        const auto x = random_values<T>(samples * stride, 7);
        const auto shift = random_values<double>(width, 8);
        const int64_t panels = (width + lanes - 1) / lanes, padded = panels * lanes;
        std::vector<double> packed(panels * panel_stride(samples, lanes)), sum(width);
        std::vector<double> square(padded * padded);
        set.of<T>().pack_panels(x.data(), samples, stride, width, shift.data(), packed.data(),
                                sum.data());
        multiply.multiply_panels(packed.data(), samples, panels, square.data());

        const int64_t whole = (samples + lanes - 1) / lanes * lanes, apart = whole + 8;
        std::vector<double> rows(width * apart), by_rows(width * width), totals(width);
        const std::vector<T> channels = transposed(x, samples, stride, width);
        set.of<T>().pack_rows(channels.data(), 1, 0, samples, width, samples, shift.data(),
                              rows.data(), apart, totals.data());
        multiply.multiply_rows(rows.data(), whole, apart, width, by_rows.data());

        for (int64_t i = 0; i < width; ++i) {
          ASSERT_NEAR(totals[i], sum[i], 1e-12);
          for (int64_t j = 0; j <= i; ++j) {
            const auto expected =
                static_cast<double>(product_at(x, shift, x, shift, samples, stride, i, j));
            ASSERT_NEAR(square[i * padded + j], expected, 1e-12 * static_cast<double>(samples));
            ASSERT_NEAR(by_rows[i * width + j], expected, 1e-12 * static_cast<double>(samples));
          }
        }
      }
}

TYPED_TEST(LoopsOf, ProductsOfTwoAreTheWholeSquare) {
  using T = TypeParam;
  for (const Set& set : sets())
    for (const int64_t width : {1, 5, 16, 29}) {
      const Loops<T>& loops = set.of<T>();
      const int64_t samples = 37, lanes = loops.lanes;
      const int64_t whole = (samples + lanes - 1) / lanes * lanes;
      const int64_t padded = (width + lanes - 1) / lanes * lanes;
      const auto g = random_values<T>(samples * padded, 1),
                 x = random_values<T>(samples * padded, 2);
      const auto by_channel = [&](const std::vector<T>& of) {
        std::vector<T> rows(width * whole);
        for (int64_t c = 0; c < width; ++c)
          for (int64_t s = 0; s < samples; ++s) rows[c * whole + s] = of[s * padded + c];
        return rows;
      };
      std::vector<double> by_rows(width * width, 1.0);
      loops.row_products(by_channel(g).data(), whole, by_channel(x).data(), whole, whole, width,
                         by_rows.data());
      std::vector<T> zero(padded), by_samples(width * padded);
      const PanelProduct<T> product = {g.data(), 1, padded, x.data(), padded};
      loops.multiply(width, padded, samples, 1, &product, nullptr, zero.data(), by_samples.data(),
                     padded);
      const std::vector<double> none(width);
      for (int64_t i = 0; i < width; ++i)
        for (int64_t j = 0; j < width; ++j) {
          const auto expected =
              static_cast<double>(product_at(g, none, x, none, samples, padded, i, j));
          ASSERT_NEAR(by_rows[i * width + j], 1 + expected, 100 * within<T>()) << set.name << width;
          ASSERT_NEAR(by_samples[i * padded + j], expected, 100 * within<T>()) << set.name << width;
        }
    }
}

TYPED_TEST(LoopsOf, PanelsArePackedSideBySideAndMultiplied) {
  using T = TypeParam;
  for (const Set& set : sets())
    for (const int64_t width : {2, 5, 16, 32})
      for (const auto& [parts, samples] : {std::pair{5, 4}, {1, 37}, {3, 49}, {1, 256}}) {
        SCOPED_TRACE(testing::Message()
                     << set.name << " " << parts << "x" << samples << "x" << width);
        const Loops<T>& loops = set.of<T>();
        const int64_t count = parts * samples, image = width * samples + 3;
        const int64_t whole = (count + loops.lanes - 1) / loops.lanes * loops.lanes,
                      apart = whole + 16;
        const int64_t wide = (width + loops.lanes - 1) / loops.lanes * loops.lanes;
        const auto x = random_values<T>(parts * image, 1), center = random_values<T>(width, 2);
        std::vector<T> m = random_values<T>(width * wide, 3), base = random_values<T>(wide, 4);
        std::vector<T> packed(width * apart, T(7)), out(width * apart), by_sample(count * wide),
            result(count * wide);
        loops.pack_channels(x.data(), parts, image, samples, width, samples, center.data(), T(0.5),
                            packed.data(), apart);
        for (int64_t c = 0; c < width; ++c)
          for (int64_t s = 0; s < whole; ++s) {
            const double value =
                s < count
                    ? 0.5 *
                          (static_cast<double>(x[s / samples * image + c * samples + s % samples]) -
                           center[c])
                    : 0.0;
            ASSERT_NEAR(packed[c * apart + s], value, 4 * within<T>());
            if (s < count) by_sample[s * wide + c] = packed[c * apart + s];
          }
        const PanelProduct<T> twice[] = {{m.data(), wide, 1, packed.data(), apart},
                                         {m.data(), wide, 1, packed.data(), apart}};
        loops.multiply(width, whole, width, 2, twice, base.data(), nullptr, out.data(), apart);
        const PanelProduct<T> turned = {by_sample.data(), wide, 1, m.data(), wide};
        loops.multiply(count, wide, width, 1, &turned, nullptr, base.data(), result.data(), wide);
        for (int64_t c = 0; c < width; ++c)
          for (int64_t s = 0; s < count; ++s) {
            double left = 0, right = base[c];
            for (int64_t j = 0; j < width; ++j) {
              left += 2.0 * m[c * wide + j] * packed[j * apart + s];
              right += static_cast<double>(packed[j * apart + s]) * m[j * wide + c];
            }
            ASSERT_NEAR(out[c * apart + s], base[c] + left, 100 * within<T>());
            ASSERT_NEAR(result[s * wide + c], right, 100 * within<T>());
          }
        std::vector<T> back(x.size());
        for (int64_t part = 0; part < parts; ++part)
          loops.unpack(packed.data() + part * samples, width, apart, samples,
                       back.data() + part * image, samples);
        for (int64_t k = 0; k < width * samples; ++k)
          ASSERT_EQ(back[(parts - 1) * image + k],
                    packed[k / samples * apart + (parts - 1) * samples + k % samples]);

        std::vector<T> rows(samples * wide), again(samples * width);
        loops.pack_samples(x.data(), samples, width, width, center.data(), T(0.5), rows.data(),
                           wide);
        loops.unpack(rows.data(), samples, wide, width, again.data(), width);
        for (int64_t k = 0; k < samples * width; ++k)
          ASSERT_NEAR(again[k], 0.5 * (static_cast<double>(x[k]) - center[k % width]),
                      4 * within<T>());
      }
}

}  // namespace
}  // namespace orthobatch::kernels
