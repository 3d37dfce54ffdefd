// Data files good and bad, augmentation, and batches that do not depend on threads.

#include <gtest/gtest.h>
#include <matio.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>

#include "data/batches.h"
#include "data/catalogue.h"
#include "data/idx.h"
#include "data/mat.h"
#include "data/mnist.h"
#include "data/pictures.h"
#include "data/svhn.h"
#include "data/synthetic.h"
#include "io/gzip.h"
#include "io/temporary_folder.h"
#include "mat_writer.h"

namespace orthobatch {
namespace {

/// The message of the FileError that `action` throws; empty when it throws none.
template <typename Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

void expect_refusal(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "no '" << part << "' in: " << message;
}

// --- idx and gzip --------------------------------------------------------------------------------

Bytes idx_bytes(std::vector<uint32_t> sizes, size_t data) {
  Bytes out = {0, 0, 8, static_cast<uint8_t>(sizes.size())};
  for (const uint32_t n : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(n >> shift));
  for (size_t i = 0; i < data; ++i) out.push_back(static_cast<uint8_t>(i % 10));
  return out;
}

TEST(Idx, ReadsImagesAndLabels) {
  const ImageSet set = images_from_idx(parse_idx(idx_bytes({3, 2, 4}, 24), "images"),
                                       parse_idx(idx_bytes({3}, 3), "labels"), "images", "labels");
  EXPECT_EQ(set.count(), 3);
  EXPECT_EQ(set.height, 2);
  EXPECT_EQ(set.width, 4);
  EXPECT_EQ(set.image(1)[3], 1);  // byte 11 of the data
  EXPECT_EQ(set.labels, (std::vector<Label>{0, 1, 2}));
}

TEST(Idx, RefusesWhatIsWrongByName) {
  const auto of = [](const Bytes& bytes) { return refusal([&] { parse_idx(bytes, "some.idx"); }); };
  expect_refusal(of({}), {"some.idx", "magic number", "expected 4 bytes", "found 0 bytes"});
  expect_refusal(of({0, 0, 9, 1, 0, 0, 0, 1, 0}), {"magic number", "0x00000901"});
  expect_refusal(of({0, 0, 8, 3, 0, 0}), {"header", "expected 16 bytes", "found 6 bytes"});
  expect_refusal(of(idx_bytes({3, 2, 4}, 23)), {"data", "expected 24 bytes", "found 23 bytes"});
  expect_refusal(of(idx_bytes({3, 2, 4}, 25)), {"data", "expected 24 bytes", "found 25 bytes"});
  expect_refusal(of(idx_bytes({3, 0, 4}, 0)), {"dimension 2", "found 0"});
  expect_refusal(of(idx_bytes({0xffffffff, 0xffffffff}, 4)), {"dimension 1", "4294967295"});
}

TEST(Idx, RefusesPairsThatDoNotFit) {
  const Idx images = parse_idx(idx_bytes({3, 2, 4}, 24), "i");
  const auto with = [&](const Idx& labels) {
    return refusal([&] { images_from_idx(images, labels, "images.idx", "labels.idx"); });
  };
  expect_refusal(with(parse_idx(idx_bytes({4}, 4), "l")),
                 {"labels.idx", "expected 3, one for each image", "found 4"});
  Idx mislabelled = parse_idx(idx_bytes({3}, 3), "l");
  mislabelled.data[1] = 10;
  expect_refusal(with(mislabelled), {"labels.idx", "label 2", "expected 0 to 9", "found 10"});
  expect_refusal(with(images), {"labels.idx", "dimensions", "found 3"});
}

TEST(Gzip, RoundTripAndDamage) {
  Bytes content(200000);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * i >> 5);
  const Bytes packed = gzip(content);
  EXPECT_EQ(gunzip(packed, "a.gz"), content);
  const auto of = [](const Bytes& bytes, uint64_t limit = 1 << 30) {
    return refusal([&] { gunzip(bytes, "a.gz", limit); });
  };
  for (const size_t keep : {size_t{2}, size_t{10}, packed.size() / 2, packed.size() - 1})
    expect_refusal(of(Bytes(packed.begin(), packed.begin() + keep)), {"a.gz", "cut off"});
  Bytes flipped = packed;
  flipped[packed.size() / 2] ^= 4;
  expect_refusal(of(flipped), {"a.gz", "expected an intact gzip stream"});
  flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // the CRC itself
  expect_refusal(of(flipped), {"incorrect data check"});
  expect_refusal(of({}), {"gzip header"});
  expect_refusal(of(packed, 1000), {"expected at most 1000 bytes"});
  Bytes twice = packed;
  twice.insert(twice.end(), packed.begin(), packed.end());
  EXPECT_EQ(gunzip(twice, "a.gz").size(), 2 * content.size());
  Bytes trailing = packed;
  trailing.push_back('x');
  expect_refusal(of(trailing), {"a.gz", "compressed data"});
  trailing.insert(trailing.end(), 100, 'x');
  expect_refusal(of(trailing), {"a.gz", "incorrect header check"});
}

TEST(Mnist, RefusesFilesThatAreNotMnist) {
  const TemporaryFolder folder;
  const auto put = [&](const char* name, const Bytes& bytes) {
    write_file(folder.path(name), bytes.data(), bytes.size());
  };
  ImageSet train, test;
  const auto load = [&] { load_mnist(folder.path(), train, test); };
  expect_refusal(refusal(load), {"train-images-idx3-ubyte", "orthobatch data get mnist"});
  put("train-images-idx3-ubyte.gz", gzip(idx_bytes({2, 28, 28}, 2 * 784)));
  put("train-labels-idx1-ubyte", idx_bytes({2}, 2));
  expect_refusal(refusal(load), {"train-images-idx3-ubyte.gz", "MD5", "6bbc9ace898e44ae57da46a3"});
  EXPECT_NE(refusal([&] { install_mnist(folder.path(), folder.path("out")); }), "");
  EXPECT_FALSE(file_exists(folder.path("out/train-images-idx3-ubyte")));
}

// --- mat -----------------------------------------------------------------------------------------

ImageSet read_set(const Bytes& bytes) {
  MemorySource source(bytes.data(), bytes.size());
  ImageSet set;
  read_svhn(source, "some.mat", set);
  return set;
}

std::string mat_refusal(const Bytes& bytes) {
  return refusal([&] { read_set(bytes); });
}

TEST(Mat, CompressedAndPlainAreTheSame) {
  const ImageSet plain = read_set(test::svhn_file(300, false));
  const ImageSet packed = read_set(test::svhn_file(300, true));
  EXPECT_EQ(plain.count(), 300);
  EXPECT_EQ(plain.pixels, packed.pixels);
  EXPECT_EQ(plain.labels, packed.labels);
  EXPECT_EQ(plain.labels[8], 9);
  EXPECT_EQ(plain.labels[9], 0);  // 10 is digit 0
}

/// The same arrays through matio, with labels as double as the official files have them.
TEST(Mat, AgreesWithMatio) {
  const TemporaryFolder folder;
  const size_t n = 7;
  std::vector<uint8_t> x(n * 3072);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 31 + i / 1000);
  std::vector<double> y = {1, 2, 10, 4, 9, 10, 3};
  for (const matio_compression compression : {MAT_COMPRESSION_NONE, MAT_COMPRESSION_ZLIB}) {
    const std::string path = folder.path("matio.mat");
    mat_t* mat = Mat_CreateVer(path.c_str(), nullptr, MAT_FT_MAT5);
    size_t x_sizes[] = {32, 32, 3, n}, y_sizes[] = {n, 1};
    matvar_t* images = Mat_VarCreate("X", MAT_C_UINT8, MAT_T_UINT8, 4, x_sizes, x.data(), 0);
    matvar_t* labels = Mat_VarCreate("y", MAT_C_DOUBLE, MAT_T_DOUBLE, 2, y_sizes, y.data(), 0);
    matvar_t* other = Mat_VarCreate("note", MAT_C_CHAR, MAT_T_UINT8, 2, y_sizes, x.data(), 0);
    for (matvar_t* v : {other, images, labels}) Mat_VarWrite(mat, v, compression);
    for (matvar_t* v : {other, images, labels}) Mat_VarFree(v);
    Mat_Close(mat);
    EXPECT_EQ(count_svhn(path), static_cast<int64_t>(n));
    FileSource source(path);
    ImageSet set;
    read_svhn(source, path, set);
    EXPECT_EQ(set.labels, (std::vector<Label>{1, 2, 0, 4, 9, 0, 3}));
    for (size_t image = 0; image < n; ++image)
      for (int row = 0; row < 32; ++row)
        for (int column = 0; column < 32; ++column)
          for (int c = 0; c < 3; ++c)
            ASSERT_EQ(set.image(image)[(row * 32 + column) * 3 + c],
                      x[((image * 3 + c) * 32 + column) * 32 + row]);
  }
}

TEST(Mat, ReadsNumbersOfEveryType) {
  const TemporaryFolder folder;
  const std::string path = folder.path("numbers.mat");
  mat_t* mat = Mat_CreateVer(path.c_str(), nullptr, MAT_FT_MAT5);
  const auto put = [&](const char* name, matio_classes of_class, matio_types type, auto a, auto b) {
    decltype(a) numbers[] = {a, static_cast<decltype(a)>(b), 7};
    size_t sizes[] = {3, 1};
    matvar_t* v = Mat_VarCreate(name, of_class, type, 2, sizes, numbers, 0);
    Mat_VarWrite(mat, v, MAT_COMPRESSION_NONE);
    Mat_VarFree(v);
  };
  put("int8", MAT_C_INT8, MAT_T_INT8, int8_t{-128}, 127);
  put("uint8", MAT_C_UINT8, MAT_T_UINT8, uint8_t{0}, 255);
  put("int16", MAT_C_INT16, MAT_T_INT16, int16_t{-32768}, 32767);
  put("uint16", MAT_C_UINT16, MAT_T_UINT16, uint16_t{0}, 65535);
  put("int32", MAT_C_INT32, MAT_T_INT32, int32_t{-2147483647}, 2147483647);
  put("uint32", MAT_C_UINT32, MAT_T_UINT32, uint32_t{0}, 4294967295u);
  put("int64", MAT_C_INT64, MAT_T_INT64, -(int64_t{1} << 60), int64_t{1} << 60);
  put("uint64", MAT_C_UINT64, MAT_T_UINT64, uint64_t{0}, uint64_t{1} << 63);
  put("single", MAT_C_SINGLE, MAT_T_SINGLE, -0.5f, 1e30f);
  put("double", MAT_C_DOUBLE, MAT_T_DOUBLE, -0.1, 1e300);
  Mat_Close(mat);

  std::map<std::string, std::vector<double>> found;
  FileSource source(path);
  read_mat(source, path, [&](MatVariable& v) {
    EXPECT_EQ(v.type, v.name);
    found[v.name] = v.values();
    return Visit::go_on;
  });
  EXPECT_EQ(found,
            (std::map<std::string, std::vector<double>>{{"int8", {-128, 127, 7}},
                                                        {"uint8", {0, 255, 7}},
                                                        {"int16", {-32768, 32767, 7}},
                                                        {"uint16", {0, 65535, 7}},
                                                        {"int32", {-2147483647, 2147483647, 7}},
                                                        {"uint32", {0, 4294967295, 7}},
                                                        {"int64", {-0x1p60, 0x1p60, 7}},
                                                        {"uint64", {0, 0x1p63, 7}},
                                                        {"single", {-0.5, 1e30f, 7}},
                                                        {"double", {-0.1, 1e300, 7}}}));
}

TEST(Mat, RefusesWhatIsWrongByName) {
  const Bytes plain = test::svhn_file(4, false), packed = test::svhn_file(40, true);
  expect_refusal(mat_refusal({}), {"some.mat", "header", "expected 128 bytes", "found 0 bytes"});
  Bytes bad = plain;
  std::memcpy(bad.data(), "MATLAB 7.3", 10);
  expect_refusal(mat_refusal(bad), {"header", "expected MAT version 5", "7.3"});
  bad = plain;
  bad[126] = 'M', bad[127] = 'I';
  expect_refusal(mat_refusal(bad), {"header", "little-endian"});
  for (const size_t keep : {size_t{130}, size_t{200}, size_t{3000}, plain.size() - 20})
    expect_refusal(mat_refusal(Bytes(plain.begin(), plain.begin() + keep)),
                   {"some.mat", "expected"});
  for (const size_t keep : {packed.size() / 3, packed.size() - 3})
    expect_refusal(mat_refusal(Bytes(packed.begin(), packed.begin() + keep)),
                   {"compressed data", "cut off"});
  bad = packed;
  bad[packed.size() / 2] ^= 16;
  expect_refusal(mat_refusal(bad), {"compressed data", "expected an intact zlib stream"});
  bad = plain;
  bad.insert(bad.end(), 100, 3);
  expect_refusal(mat_refusal(bad), {"element 3", "type"});
}

TEST(Mat, RefusesVariablesThatAreNotSvhn) {
  using test::mat_file;
  using test::mat_variable;
  const Bytes two(2 * 3072), labels = {1, 10};
  const Bytes x = mat_variable("X", {32, 32, 3, 2}, two), y = mat_variable("y", {2, 1}, labels);
  EXPECT_EQ(mat_refusal(mat_file({y, x})), "");
  expect_refusal(mat_refusal(mat_file({x})), {"some.mat", "y", "found none"});
  expect_refusal(mat_refusal(mat_file({y})), {"some.mat", "X", "found none"});
  expect_refusal(mat_refusal(mat_file({x, x, y})), {"X", "another"});
  expect_refusal(mat_refusal(mat_file({mat_variable("X", {32, 32, 6}, two), y})),
                 {"X", "expected 32x32x3xn uint8", "found 32x32x6 uint8"});
  expect_refusal(mat_refusal(mat_file({x, mat_variable("y", {3, 1}, {1, 2, 3})})),
                 {"y", "expected 2 labels", "found 3"});
  expect_refusal(mat_refusal(mat_file({x, mat_variable("y", {2, 1}, {1, 11})})),
                 {"y(2)", "expected 1 to 10", "found 11"});
  expect_refusal(mat_refusal(mat_file({x, mat_variable("y", {2, 1}, {0, 1})})),
                 {"y(1)", "found 0"});
  expect_refusal(mat_refusal(mat_file({mat_variable("X", {32, 32, 3, 2000000}, two), y})),
                 {"X: data", "expected 6144000000 bytes", "found 6144 bytes"});
}

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

TEST(Catalogue, NamesAndFolders) {
  EXPECT_NO_THROW(require_data_name("svhn-train"));
  try {
    require_data_name("mnits");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'mnist'"), std::string::npos);
  }
  EXPECT_EQ(data_directory("here"), "here");
}

TEST(Png, IsReadBackByItsOwnSums) {
  const TemporaryFolder folder;
  ImageSet train, test;
  load_synthetic(train, test);
  train.keep_first(300);
  const Picture sheet = contact_sheet(train, 5, {4, 4, 20}, 1);
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
