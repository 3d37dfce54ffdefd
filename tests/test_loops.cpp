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

/// Σ (x−shift)(x−shift)ᵀ of samples × width values, `stride` apart.
template <typename T>
long double square_at(const std::vector<T>& x, const std::vector<T>& shift, int64_t samples,
                      int64_t stride, int64_t i, int64_t j) {
  long double sum = 0;
  for (int64_t s = 0; s < samples; ++s)
    sum += (static_cast<long double>(x[s * stride + i]) - shift[i]) *
           (static_cast<long double>(x[s * stride + j]) - shift[j]);
  return sum;
}

TYPED_TEST(LoopsOf, CovarianceOfPanelsAndOfRowsIsTheSum) {
  using T = TypeParam;
  for (const Set& set : sets())
    for (const int64_t width : {1, 3, 4, 8, 13, 16, 29, 48})
      for (const int64_t samples : {1, 6, 37, 128}) {
        SCOPED_TRACE(testing::Message() << set.name << " " << samples << "x" << width);
        const CovarianceLoops& multiply = *set.of_covariance;
        const int64_t stride = width + 2, lanes = multiply.lanes;
        const auto x = random_values<T>(samples * stride, 7), shift = random_values<T>(width, 8);
        const int64_t panels = (width + lanes - 1) / lanes, padded = panels * lanes;
        std::vector<double> packed(panels * panel_stride(samples, lanes)), sum(width);
        std::vector<double> square(padded * padded);
        set.of<T>().pack_panels(x.data(), samples, stride, width, shift.data(), packed.data(),
                                sum.data());
        multiply.multiply_panels(packed.data(), samples, panels, square.data());

        const int64_t whole = (samples + lanes - 1) / lanes * lanes;
        std::vector<double> rows(width * (whole + 8)), by_rows(width * width);
        for (int64_t c = 0; c < width; ++c) {
          std::vector<T> channel(samples);
          for (int64_t s = 0; s < samples; ++s) channel[s] = x[s * stride + c];
          const double total = set.of<T>().pack_row(channel.data(), samples, shift[c],
                                                    rows.data() + c * (whole + 8));
          ASSERT_NEAR(total, sum[c], 1e-12);
        }
        multiply.multiply_rows(rows.data(), whole, whole + 8, width, by_rows.data());

        for (int64_t i = 0; i < width; ++i)
          for (int64_t j = 0; j <= i; ++j) {
            const auto expected = static_cast<double>(square_at(x, shift, samples, stride, i, j));
            ASSERT_NEAR(square[i * padded + j], expected, 1e-12 * static_cast<double>(samples));
            ASSERT_NEAR(by_rows[i * width + j], expected, 1e-12 * static_cast<double>(samples));
          }
      }
}

}  // namespace
}  // namespace orthobatch::kernels
