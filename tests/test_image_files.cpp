// PNG and JPEG files of every kind that strangers have, good and bad, and images at another size.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "data/image_file.h"
#include "data/rescale.h"
#include "image_writer.h"
#include "io/exif.h"
#include "io/file.h"
#include "io/jpeg_reader.h"
#include "io/png_reader.h"
#include "io/temporary_folder.h"
#include "refusal.h"
#include "rooms.h"

namespace orthobatch {
namespace {

using test::expect_words;
using test::jpeg_of;
using test::png_bytes;
using test::refused;

/// A smooth picture, which JPEG keeps nearly as it is.
Bytes slope(int width, int height, int channels) {
  Bytes out;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        out.push_back(static_cast<uint8_t>(20 + 200 * x / width * (c != 1) + 30 * y / height));
  return out;
}

void expect_near(const Bytes& found, const Bytes& expected, int most) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_LE(std::abs(found[i] - expected[i]), most) << "byte " << i;
}

// --- PNG -----------------------------------------------------------------------------------------

TEST(Png, GreyAndColourComeAsTheyAre) {
  for (const int channels : {1, 3}) {
    const Bytes pixels = slope(7, 5, channels);
    const Pixels image = decode_png(test::png_of(7, 5, channels, pixels), "a.png");
    EXPECT_EQ(image.width, 7);
    EXPECT_EQ(image.height, 5);
    EXPECT_EQ(image.channels, channels);
    EXPECT_EQ(image.bytes, pixels);
    const PixelSize size = png_size(test::png_of(7, 5, channels, pixels), "a.png");
    EXPECT_EQ(size.width, 7);
    EXPECT_EQ(size.height, 5);
    EXPECT_EQ(size.grey, channels == 1);
  }
}

TEST(Png, SixteenBitsBecomeEight) {
  const Pixels grey =
      decode_png(png_bytes(3, 1, {0, 0, 0x80, 0x80, 0xff, 0xff}, {PNG_COLOR_TYPE_GRAY, 16}), "a");
  EXPECT_EQ(grey.bytes, (Bytes{0, 128, 255}));
  const Pixels colour = decode_png(
      png_bytes(1, 1, {0x10, 0x10, 0x40, 0x40, 0xc8, 0xc8}, {PNG_COLOR_TYPE_RGB, 16}), "a");
  EXPECT_EQ(colour.bytes, (Bytes{0x10, 0x40, 0xc8}));
}

TEST(Png, OneBitIsBlackOrWhite) {
  const Pixels image = decode_png(png_bytes(8, 1, {0b10110001}, {PNG_COLOR_TYPE_GRAY, 1}), "a");
  EXPECT_EQ(image.bytes, (Bytes{255, 0, 255, 255, 0, 0, 0, 255}));
}

TEST(Png, APaletteBecomesItsColours) {
  const Pixels image = decode_png(
      png_bytes(3, 1, {1, 0, 2},
                {PNG_COLOR_TYPE_PALETTE, 8, false, {{1, 2, 3}, {200, 100, 0}, {9, 9, 9}}}),
      "a");
  EXPECT_EQ(image.bytes, (Bytes{200, 100, 0, 1, 2, 3, 9, 9, 9}));
  const Pixels with_alpha = decode_png(
      png_bytes(2, 1, {0, 1},
                {PNG_COLOR_TYPE_PALETTE, 8, false, {{1, 2, 3}, {200, 100, 0}}, {0, 255}}),
      "a");
  EXPECT_EQ(with_alpha.bytes, (Bytes{255, 255, 255, 200, 100, 0}));
}

TEST(Png, TransparencyIsLaidOverWhite) {
  const Pixels colour = decode_png(
      png_bytes(3, 1, {10, 20, 30, 255, 10, 20, 30, 0, 0, 0, 0, 128}, {PNG_COLOR_TYPE_RGBA, 8}),
      "a");
  EXPECT_EQ(colour.bytes, (Bytes{10, 20, 30, 255, 255, 255, 127, 127, 127}));
  const Pixels grey =
      decode_png(png_bytes(2, 1, {40, 255, 40, 0}, {PNG_COLOR_TYPE_GRAY_ALPHA, 8}), "a");
  EXPECT_EQ(grey.channels, 1);
  EXPECT_EQ(grey.bytes, (Bytes{40, 255}));
}

TEST(Png, InterlacedIsTheSame) {
  const Bytes pixels = slope(13, 9, 3);
  EXPECT_EQ(decode_png(png_bytes(13, 9, pixels, {PNG_COLOR_TYPE_RGB, 8, true}), "a").bytes, pixels);
}

TEST(Png, WhatIsNotWholeIsRefused) {
  const Bytes whole = test::png_of(20, 20, 1, slope(20, 20, 1));
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const std::string message = refused([&] { decode_png(part, "cut.png"); });
    ASSERT_EQ(message.rfind("cut.png: ", 0), 0u) << size << ": " << message;
  }
  Bytes damaged = whole;
  damaged[whole.size() / 2] ^= 1;
  expect_words(refused([&] { decode_png(damaged, "b.png"); }), {"b.png: PNG: "});
}

TEST(Png, AbsurdSizesAreRefusedUnread) {
  Bytes bomb = test::png_of(1, 1, 1, {0});
  for (const size_t at : {16, 20}) bomb[at] = 0x00, bomb[at + 1] = 0x7f, bomb[at + 2] = 0xff;
  for (const auto& action : {std::function<void()>([&] { png_size(bomb, "bomb.png"); }),
                             std::function<void()>([&] { decode_png(bomb, "bomb.png"); })})
    expect_words(refused(action), {"bomb.png: PNG: expected 1 to 67108864 pixels, found 8388353×"});
  EXPECT_EQ(refused([&] { decode_png(test::png_of(4, 4, 1, Bytes(16)), "a", 16); }), "");
  EXPECT_NE(refused([&] { decode_png(test::png_of(4, 4, 1, Bytes(16)), "a", 15); }), "");
}

// --- JPEG ----------------------------------------------------------------------------------------

TEST(Jpeg, GreyAndColourComeNearly) {
  for (const bool progressive : {false, true})
    for (const int channels : {1, 3}) {
      const Bytes pixels = slope(40, 24, channels);
      const Bytes file = jpeg_of(40, 24, channels, pixels, {98, progressive});
      const Pixels image = decode_jpeg(file, "a.jpg");
      EXPECT_EQ(image.width, 40);
      EXPECT_EQ(image.height, 24);
      EXPECT_EQ(image.channels, channels);
      expect_near(image.bytes, pixels, 12);
      EXPECT_EQ(jpeg_size(file, "a.jpg").grey, channels == 1);
    }
}

TEST(Jpeg, CmykBecomesRgb) {
  // As Adobe's programs store it, and libjpeg says of what it writes: 255 is no ink.
  Bytes pixels;
  for (int i = 0; i < 16 * 16; ++i) pixels.insert(pixels.end(), {255, 100, 0, 255});
  const Pixels image = decode_jpeg(jpeg_of(16, 16, 4, pixels, {100}), "a");
  ASSERT_EQ(image.channels, 3);
  Bytes expected;
  for (int i = 0; i < 16 * 16; ++i) expected.insert(expected.end(), {255, 100, 0});
  expect_near(image.bytes, expected, 3);
}

TEST(Jpeg, ExifSaysWhichWayUp) {
  // A dark corner at the top left of the stored image, longer than it is high.
  const int width = 32, height = 16;
  Bytes pixels(width * height, 200);
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 16; ++x) pixels[y * width + x] = 10;
  // Where the corner is to be seen, by orientation: right, bottom, upright.
  const int expected[8][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0},
                              {0, 0, 1}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto [right, bottom, upright] = expected[orientation - 1];
    const Bytes file = jpeg_of(width, height, 1, pixels, {95, false, orientation});
    const Pixels image = decode_jpeg(file, "a");
    EXPECT_EQ(image.width, upright ? height : width) << orientation;
    EXPECT_EQ(jpeg_size(file, "a").width, image.width) << orientation;
    const int x = right ? image.width - 2 : 1, y = bottom ? image.height - 2 : 1;
    EXPECT_LT(image.bytes[y * image.width + x], 40) << orientation;
    EXPECT_GT(image.bytes[(image.height - 1 - y) * image.width + x], 160) << orientation;
    EXPECT_GT(image.bytes[y * image.width + image.width - 1 - x], 160) << orientation;
  }
}

TEST(Jpeg, ExifOfAnyKindIsRead) {
  const Bytes big = {'E', 'x', 'i', 'f',  0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
                     0,   1,   1,   0x12, 0, 3, 0,   0,   0, 1,  0, 8, 0, 0};
  EXPECT_EQ(exif_orientation(big.data(), big.size()), 8);
  for (size_t size = 0; size < big.size() - 2; ++size)
    EXPECT_EQ(exif_orientation(big.data(), size), 1) << size;
  Bytes far = big;
  far[13] = 0xff;  // where the directory is
  EXPECT_EQ(exif_orientation(far.data(), far.size()), 1);
  Bytes ninth = big;
  ninth[25] = 9;
  EXPECT_EQ(exif_orientation(ninth.data(), ninth.size()), 1);
}

TEST(Jpeg, WhatIsNotWholeIsRefused) {
  for (const bool progressive : {false, true}) {
    const Bytes whole = jpeg_of(40, 40, 3, slope(40, 40, 3), {90, progressive});
    for (size_t size = 3; size + 2 < whole.size(); size += 7) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const std::string message = refused([&] { decode_jpeg(part, "cut.jpg"); });
      ASSERT_EQ(message.rfind("cut.jpg: JPEG: ", 0), 0u) << size << ": " << message;
    }
  }
}

TEST(Jpeg, AbsurdSizesAreRefusedUnread) {
  Bytes bomb = jpeg_of(8, 8, 1, Bytes(64));
  for (size_t i = 0; i + 8 < bomb.size(); ++i)
    if (bomb[i] == 0xff && bomb[i + 1] == 0xc0) bomb[i + 5] = bomb[i + 7] = 0xf0;
  expect_words(refused([&] { decode_jpeg(bomb, "bomb.jpg"); }),
               {"bomb.jpg: JPEG: expected 1 to 67108864 pixels, found 61448×61448"});
}

TEST(Jpeg, HundredsOfScansAreRefused) {
  const Bytes pixels = slope(16, 16, 1);
  const auto with = [&](int bits) { return jpeg_of(16, 16, 1, pixels, {98, false, 0, bits}); };
  expect_near(decode_jpeg(with(1), "a.jpg").bytes, pixels, 12);  // 127
  expect_words(refused([&] { decode_jpeg(with(5), "b.jpg"); }),  // 379
               {"b.jpg: JPEG: expected at most 200 scans, found more"});
}

TEST(Jpeg, WhatIsToShrinkComesSmaller) {
  const Bytes file = jpeg_of(640, 480, 3, slope(640, 480, 3));
  EXPECT_EQ(decode_jpeg(file, "a").width, 640);
  EXPECT_EQ(decode_jpeg(file, "a", most_pixels, 32, 32).width, 640 / 4);  // 480/8 < 2 · 32
  EXPECT_EQ(decode_jpeg(file, "a", most_pixels, 30, 30).width, 640 / 8);
  EXPECT_EQ(decode_jpeg(file, "a", most_pixels, 400, 300).width, 640);
  // … and shrunk to the end it is what it would have been.
  const Bytes exact = rescale(decode_jpeg(file, "a"), 30, 30).bytes;
  expect_near(rescale(decode_jpeg(file, "a", most_pixels, 30, 30), 30, 30).bytes, exact, 3);
}

// --- files ---------------------------------------------------------------------------------------

TEST(ImageFile, ContentCountsAndNotTheName) {
  const TemporaryFolder folder;
  const auto put = [&](const std::string& name, const Bytes& bytes) {
    write_file(folder.path(name), bytes.data(), bytes.size());
    return folder.path(name);
  };
  const std::string jpeg = put("jpeg.png", jpeg_of(16, 8, 3, slope(16, 8, 3)));
  const std::string png = put("png.jpg", test::png_of(16, 8, 1, slope(16, 8, 1)));
  EXPECT_EQ(look_at_image(jpeg).width, 16);
  EXPECT_EQ(read_image(jpeg, 16, 8).channels, 3);
  EXPECT_EQ(look_at_image(png).height, 8);
  EXPECT_EQ(read_image(png, 8, 4).bytes.size(), 32u);
  const auto look = [&](const std::string& path) { return refused([&] { look_at_image(path); }); };
  const auto text = [](const std::string& s) { return Bytes(s.begin(), s.end()); };
  expect_words(look(put("a.png", {})),
               {"a.png: content: expected a PNG or JPEG image, found an empty"});
  expect_words(look(put("b.png", text("a text\n"))), {"found text"});
  expect_words(look(put("c.png", text("GIF89a..."))), {"found a GIF image"});
  expect_words(look(put("d.png", text("RIFF....WEBPVP8 "))), {"found a WebP image"});
  expect_words(look(put("e.png", {1, 2, 3, 0})), {"found something else"});
  expect_words(look(folder.path("nowhere.png")), {"nowhere.png: cannot open"});
  expect_words(look(folder.path()), {"expected a regular file, found a folder"});
}

TEST(ImageFile, AHeadBeyondTheFirstPiece) {
  // 40 kB of comments before the size.
  Bytes file = jpeg_of(16, 8, 1, slope(16, 8, 1));
  Bytes comment = {0xff, 0xfe, 0x9c, 0x40};
  comment.resize(0x9c40 + 2, 'x');
  file.insert(file.begin() + 2, comment.begin(), comment.end());
  const TemporaryFolder folder;
  write_file(folder.path("a.jpg"), file.data(), file.size());
  EXPECT_EQ(look_at_image(folder.path("a.jpg")).width, 16);
}

// --- another size --------------------------------------------------------------------------------

TEST(Rescale, KeepsWhatIsFlatAndTheMean) {
  for (const int to : {1, 3, 16, 50, 97}) {
    const Pixels flat = rescale({50, 40, 3, Bytes(50 * 40 * 3, 77)}, to, to + 3);
    EXPECT_EQ(flat.bytes, Bytes(to * (to + 3) * 3, 77));
  }
  Bytes noise(64 * 64);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint8_t>(i * i * 31 >> 3);
  const auto mean = [](const Bytes& b) {
    return std::accumulate(b.begin(), b.end(), 0.0) / b.size();
  };
  EXPECT_NEAR(mean(rescale({64, 64, 1, noise}, 8, 8).bytes), mean(noise), 2);
}

TEST(Rescale, ShrinkingPassesNothingOver) {
  // Stripes of one pixel: every other column taken would be all black or all white.
  Bytes stripes;
  for (int y = 0; y < 32; ++y)
    for (int x = 0; x < 32; ++x) stripes.push_back(x % 2 ? 255 : 0);
  for (const uint8_t p : rescale({32, 32, 1, stripes}, 8, 8).bytes) EXPECT_NEAR(p, 127.5, 18);
}

TEST(Rescale, GrowingIsLinearBetweenPixels) {
  EXPECT_EQ(rescale({2, 1, 1, {0, 100}}, 4, 1).bytes, (Bytes{0, 25, 75, 100}));
  EXPECT_EQ(rescale({1, 2, 1, {0, 100}}, 1, 4).bytes, (Bytes{0, 25, 75, 100}));
  EXPECT_EQ(rescale({2, 1, 3, {0, 10, 20, 100, 10, 20}}, 4, 1).bytes,
            (Bytes{0, 10, 20, 25, 10, 20, 75, 10, 20, 100, 10, 20}));
}

TEST(Rescale, GreyAndColour) {
  EXPECT_TRUE(is_grey({2, 1, 3, {5, 5, 5, 9, 9, 9}}));
  EXPECT_FALSE(is_grey({2, 1, 3, {5, 5, 5, 9, 9, 8}}));
  EXPECT_EQ(with_channels({2, 1, 1, {5, 9}}, 3).bytes, (Bytes{5, 5, 5, 9, 9, 9}));
  EXPECT_EQ(with_channels({2, 1, 3, {7, 7, 7, 255, 0, 0}}, 1).bytes, (Bytes{7, 76}));
}

}  // namespace
}  // namespace orthobatch
