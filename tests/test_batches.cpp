// Augmentation, batches that do not depend on threads, and the sets they are made of.

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "cli/pictures.h"
#include "data/augment.h"
#include "data/batches.h"
#include "data/synthetic.h"
#include "io/file.h"
#include "io/png.h"
#include "io/temporary_folder.h"
#include "rooms.h"

namespace orthobatch {
namespace {

// --- augmentation --------------------------------------------------------------------------------

ImageSet ramp(int side) {
  ImageSet set;
  set.height = set.width = side;
  set.channels = 1;
  set.labels = {0};
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) set.pixels.push_back(static_cast<uint8_t>(3 * x + 2 * y));
  return set;
}

const InputScale as_bytes{{0.0}, {1.0 / 255}};

TEST(Augmentation, IdentityKeepsEveryPixel) {
  const ImageSet set = ramp(28);
  Resampler resample(28, 28, 1, as_bytes);
  std::vector<float> out(784), plain(784);
  resample(set.image(0), identity_placement(), out.data());
  resample(set.image(0), plain.data());
  for (int i = 0; i < 784; ++i) {
    EXPECT_NEAR(out[i], set.pixels[i], 1e-4);
    EXPECT_EQ(out[i], plain[i]);
  }
}

/// A linear image stays linear under any placement, inside: bilinear interpolation is exact on it.
TEST(Augmentation, BilinearIsExactOnARamp) {
  const ImageSet set = ramp(28);
  Resampler resample(28, 28, 1, as_bytes);
  std::vector<float> out(784);
  for (int i = 0; i < 50; ++i) {
    Random random(1, 2, i);
    const Placement p = random_placement({4, 4, 20}, 28, 28, random);
    resample(set.image(0), p, out.data());
    for (int y = 0; y < 28; ++y)
      for (int x = 0; x < 28; ++x) {
        const double u = p.u0 + p.ux * x + p.uy * y, v = p.v0 + p.vx * x + p.vy * y;
        const double expected = 3 * std::clamp(u, 0.0, 27.0) + 2 * std::clamp(v, 0.0, 27.0);
        ASSERT_NEAR(out[y * 28 + x], expected, 2e-3);
      }
  }
}

TEST(Augmentation, StaysWithinItsRanges) {
  double least_scale = 9, most_scale = 0, most_angle = 0;
  for (int i = 0; i < 20000; ++i) {
    Random random(3, 1, i);
    const Placement p = random_placement({4, 4, 20}, 28, 28, random);
    const double scale = std::hypot(p.ux, p.vx), angle = std::atan2(p.vx, p.ux) * 180 / M_PI;
    least_scale = std::min(least_scale, scale);
    most_scale = std::max(most_scale, scale);
    most_angle = std::max(most_angle, std::fabs(angle));
  }
  EXPECT_NEAR(least_scale, 28.0 / 32, 1e-3);
  EXPECT_NEAR(most_scale, 28.0 / 24, 1e-3);
  EXPECT_LE(most_angle, 20);
  EXPECT_GT(most_angle, 19.9);
  // Without rotation, what is shown lies inside the image when zoomed in, and the whole image is
  // inside what is shown when zoomed out.
  for (int i = 0; i < 2000; ++i) {
    Random random(4, 1, i);
    const Placement in = random_placement({0, 2, 0}, 32, 32, random);
    EXPECT_GE(in.u0, -0.5);
    EXPECT_LE(in.u0 + 31 * in.ux, 31.5);
    const Placement out = random_placement({4, 0, 0}, 28, 28, random);
    EXPECT_LE(out.u0 - out.ux / 2, -0.5 + 1e-9);
    EXPECT_GE(out.u0 + 27.5 * out.ux, 27.5 - 1e-9);
  }
}

TEST(Augmentation, MirrorsEveryOtherImage) {
  Augmentation mirror;
  mirror.mirror = true;
  const ImageSet set = ramp(28);
  Resampler resample(28, 28, 1, as_bytes);
  std::vector<float> out(784);
  int mirrored = 0;
  for (int i = 0; i < 400; ++i) {
    Random random(5, 1, i);
    const Placement p = random_placement(mirror, 28, 28, random);
    if (p.ux > 0) continue;
    ++mirrored;
    resample(set.image(0), p, out.data());
    for (int x = 0; x < 28; ++x) ASSERT_NEAR(out[28 + x], set.pixels[28 + 27 - x], 1e-3);
  }
  EXPECT_NEAR(mirrored, 200, 40);
  // Without it, what is drawn is what was drawn before there was such a thing.
  Random with(6, 1, 1), without(6, 1, 1);
  const Placement a = random_placement({4, 4, 20, true}, 28, 28, with);
  const Placement b = random_placement({4, 4, 20}, 28, 28, without);
  EXPECT_EQ(std::fabs(a.ux), b.ux);
  EXPECT_EQ(a.uy, b.uy);
}

// --- batches -------------------------------------------------------------------------------------

std::vector<Batch> epoch_of(const ImageSet& set, int threads, int64_t epoch, int64_t first = 0) {
  BatchLoader loader(set, measure_scale(set), {4, 4, 20}, 7, threads);
  loader.start(epoch, 64, first);
  std::vector<Batch> out;
  for (int64_t i = first; i < loader.steps(); ++i) out.push_back(*loader.next());
  return out;
}

TEST(Batches, TheSameForAnyNumberOfThreads) {
  ImageSet set, ignored;
  load_synthetic(set, ignored);
  set.keep_first(1000);
  const auto one = epoch_of(set, 1, 3), two = epoch_of(set, 2, 3), five = epoch_of(set, 5, 3);
  ASSERT_EQ(one.size(), 15u);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].images, two[i].images) << i;
    EXPECT_EQ(one[i].labels, two[i].labels) << i;
    EXPECT_EQ(one[i].images, five[i].images) << i;
  }
  EXPECT_NE(one[0].images, epoch_of(set, 1, 4)[0].images);
  const auto late = epoch_of(set, 2, 3, 11);
  ASSERT_EQ(late.size(), 4u);
  EXPECT_EQ(late[0].images, one[11].images);
}

TEST(Batches, AnEpochTakesEveryImageAtMostOnce) {
  const auto order = epoch_order(1000, 5, 2);
  std::vector<uint32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(sorted[i], i);
  EXPECT_NE(order, epoch_order(1000, 5, 3));
  EXPECT_NE(order, epoch_order(1000, 6, 2));
  EXPECT_EQ(order, epoch_order(1000, 5, 2));
}

TEST(Batches, ANewEpochMayStartInTheMiddleOfAnother) {
  ImageSet set, ignored;
  load_synthetic(set, ignored);
  set.keep_first(600);
  BatchLoader loader(set, measure_scale(set), {4, 4, 20}, 7, 2);
  const auto expected = epoch_of(set, 1, 2);
  for (int i = 0; i < 20; ++i) {
    loader.start(1, 50);
    for (int k = 0; k < i % 4; ++k) loader.next();
    loader.start(2, 64);
    EXPECT_EQ(loader.next()->images, expected[0].images);
  }
  EXPECT_THROW(loader.start(1, 601), std::invalid_argument);
}

// --- sets ----------------------------------------------------------------------------------------

TEST(Synthetic, IsBalancedAndTheSameEveryTime) {
  ImageSet train, test, again, ignored;
  load_synthetic(train, test);
  load_synthetic(again, ignored);
  EXPECT_EQ(train.pixels, again.pixels);
  EXPECT_EQ(train.count(), 10000);
  EXPECT_EQ(test.count(), 2000);
  for (const int64_t n : class_counts(train)) EXPECT_NEAR(n, 1000, 150);
  EXPECT_FALSE(std::equal(test.pixels.begin(), test.pixels.begin() + 784, train.pixels.begin()));
}

TEST(InputScale, StandardizesEachChannel) {
  ImageSet set;
  set.height = set.width = 2;
  set.channels = 3;
  set.labels = {1};
  set.pixels = {0, 255, 7, 255, 255, 7, 0, 255, 7, 255, 255, 7};
  const InputScale scale = measure_scale(set);
  EXPECT_NEAR(scale.mean[0], 0.5, 1e-12);
  EXPECT_NEAR(scale.deviation[0], 0.5, 1e-12);
  EXPECT_NEAR(scale.mean[1], 1, 1e-12);
  EXPECT_EQ(scale.deviation[2], 1);  // a constant channel is left as it is
}

const std::vector<std::string> ten_digits = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

int dark_pixels(const Picture& picture) {
  int count = 0;
  for (size_t i = 0; i < picture.rgb.size(); i += 3) count += picture.rgb[i] < 128;
  return count;
}

TEST(Pictures, EveryLetterIsDrawnAndUnlikeTheOthers) {
  std::set<std::vector<uint8_t>> seen;
  std::string letters = "?0123456789-_(),+/:.%";
  for (char c = 'a'; c <= 'z'; ++c) letters += {c, static_cast<char>(c - 'a' + 'A')};
  for (const char c : letters) {
    Picture upright(5, 7, 255), turned(7, 5, 255);
    upright.text(0, 0, std::string(1, c), 1, 0);
    turned.text(0, 5, std::string(1, c), 1, 0, true);
    EXPECT_GT(dark_pixels(upright), 1) << c;
    EXPECT_EQ(dark_pixels(turned), dark_pixels(upright)) << c;
    EXPECT_TRUE(seen.insert(upright.rgb).second) << c;
  }
  Picture other(5, 7, 255);
  other.text(0, 0, "\x80", 1, 0);
  EXPECT_FALSE(seen.insert(other.rgb).second) << "a question mark";
}

TEST(Pictures, ClassesHaveTheirNames) {
  ImageSet train, test;
  load_synthetic(train, test);
  train.keep_first(100);
  auto named = ten_digits;
  named[3] = "great white shark";
  const Picture plain = cli::contact_sheet(train, ten_digits, 2, {}, 1),
                sheet = cli::contact_sheet(train, named, 2, {}, 1);
  // "great white sh..", as far as there is room.
  EXPECT_EQ(sheet.width - plain.width, 15 * 12);
  named[3] = "großes";  // a character, a question mark
  EXPECT_EQ(cli::contact_sheet(train, named, 2, {}, 1).width - plain.width, 5 * 12);
  Confusion confusion(10, std::vector<int64_t>(10, 0));
  for (int i = 0; i < 10; ++i) confusion[i][i] = 5;
  named[3] = "shark";
  EXPECT_GT(cli::confusion_picture(confusion, named).width,
            cli::confusion_picture(confusion, ten_digits).width);
}

TEST(Png, IsReadBackByItsOwnSums) {
  const TemporaryFolder folder;
  ImageSet train, test;
  load_synthetic(train, test);
  train.keep_first(300);
  const Picture sheet = cli::contact_sheet(train, ten_digits, 5, {4, 4, 20}, 1);
  write_png(folder.path("a.png"), sheet);
  const Bytes png = read_file(folder.path("a.png"));
  ASSERT_GT(png.size(), 100u);
  const uint8_t magic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  EXPECT_TRUE(std::equal(std::begin(magic), std::end(magic), png.begin()));
  const auto word = [&](size_t at) {
    return png[at] << 24 | png[at + 1] << 16 | png[at + 2] << 8 | png[at + 3];
  };
  EXPECT_EQ(word(16), sheet.width);
  EXPECT_EQ(word(20), sheet.height);
  size_t chunks = 0;
  for (size_t at = 8; at < png.size(); ++chunks) {
    const auto size = static_cast<size_t>(word(at));
    EXPECT_EQ(static_cast<uint32_t>(word(at + 8 + size)),
              crc32(0, png.data() + at + 4, static_cast<uInt>(size + 4)));
    at += size + 12;
  }
  EXPECT_EQ(chunks, 3u);
}

}  // namespace
}  // namespace orthobatch
