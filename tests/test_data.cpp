// Data files good and bad.

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
#include "data/cifar10.h"
#include "data/idx.h"
#include "data/mat.h"
#include "data/mnist.h"
#include "data/svhn.h"
#include "data/synthetic.h"
#include "image_writer.h"
#include "io/checksum.h"
#include "io/gzip.h"
#include "io/temporary_folder.h"
#include "mat_writer.h"
#include "refusal.h"
#include "rooms.h"

namespace orthobatch {
namespace {

using test::expect_words;
using test::refused;

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
  const auto of = [](const Bytes& bytes) { return refused([&] { parse_idx(bytes, "some.idx"); }); };
  expect_words(of({}), {"some.idx", "magic number", "expected 4 bytes", "found 0 bytes"});
  expect_words(of({0, 0, 9, 1, 0, 0, 0, 1, 0}), {"magic number", "0x00000901"});
  expect_words(of({0, 0, 8, 3, 0, 0}), {"header", "expected 16 bytes", "found 6 bytes"});
  expect_words(of(idx_bytes({3, 2, 4}, 23)), {"data", "expected 24 bytes", "found 23 bytes"});
  expect_words(of(idx_bytes({3, 2, 4}, 25)), {"data", "expected 24 bytes", "found 25 bytes"});
  expect_words(of(idx_bytes({3, 0, 4}, 0)), {"dimension 2", "found 0"});
  expect_words(of(idx_bytes({0xffffffff, 0xffffffff}, 4)), {"dimension 1", "4294967295"});
}

TEST(Idx, RefusesPairsThatDoNotFit) {
  const Idx images = parse_idx(idx_bytes({3, 2, 4}, 24), "i");
  const auto with = [&](const Idx& labels) {
    return refused([&] { images_from_idx(images, labels, "images.idx", "labels.idx"); });
  };
  expect_words(with(parse_idx(idx_bytes({4}, 4), "l")),
               {"labels.idx", "expected 3, one for each image", "found 4"});
  Idx mislabelled = parse_idx(idx_bytes({3}, 3), "l");
  mislabelled.data[1] = 10;
  expect_words(with(mislabelled), {"labels.idx", "label 2", "expected 0 to 9", "found 10"});
  expect_words(with(images), {"labels.idx", "dimensions", "found 3"});
}

TEST(Gzip, RoundTripAndDamage) {
  Bytes content(200000);
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<uint8_t>(i * i >> 5);
  const Bytes packed = gzip(content);
  EXPECT_EQ(gunzip(packed, "a.gz"), content);
  const auto of = [](const Bytes& bytes, uint64_t limit = 1 << 30) {
    return refused([&] { gunzip(bytes, "a.gz", limit); });
  };
  for (const size_t keep : {size_t{2}, size_t{10}, packed.size() / 2, packed.size() - 1})
    expect_words(of(Bytes(packed.begin(), packed.begin() + keep)), {"a.gz", "cut off"});
  Bytes flipped = packed;
  flipped[packed.size() / 2] ^= 4;
  expect_words(of(flipped), {"a.gz", "expected an intact gzip stream"});
  flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // the CRC itself
  expect_words(of(flipped), {"incorrect data check"});
  expect_words(of({}), {"gzip header"});
  expect_words(of(packed, 1000), {"expected at most 1000 bytes"});
  Bytes twice = packed;
  twice.insert(twice.end(), packed.begin(), packed.end());
  EXPECT_EQ(gunzip(twice, "a.gz").size(), 2 * content.size());
  Bytes trailing = packed;
  trailing.push_back('x');
  expect_words(of(trailing), {"a.gz", "compressed data"});
  trailing.insert(trailing.end(), 100, 'x');
  expect_words(of(trailing), {"a.gz", "incorrect header check"});
}

TEST(Mnist, RefusesFilesThatAreNotMnist) {
  const TemporaryFolder folder;
  const auto put = [&](const char* name, const Bytes& bytes) {
    write_file(folder.path(name), bytes.data(), bytes.size());
  };
  ImageSet train, test;
  const auto load = [&] { load_mnist(mnist(), folder.path(), train, test); };
  expect_words(refused(load), {"train-images-idx3-ubyte", "orthobatch data get mnist"});
  put("train-images-idx3-ubyte.gz", gzip(idx_bytes({2, 28, 28}, 2 * 784)));
  put("train-labels-idx1-ubyte", idx_bytes({2}, 2));
  expect_words(refused(load), {"train-images-idx3-ubyte.gz", "MD5", "6bbc9ace898e44ae57da46a3"});
  EXPECT_NE(refused([&] { install_mnist(mnist(), folder.path(), folder.path("out")); }), "");
  EXPECT_FALSE(file_exists(folder.path("out/train-images-idx3-ubyte")));
}

TEST(Mnist, OtherSetsOfItsFormAreTold) {
  const TemporaryFolder folder;
  const Bytes images = idx_bytes({2, 28, 28}, 2 * 784);
  write_file(folder.path("train-images-idx3-ubyte"), images.data(), images.size());
  expect_words(refused([&] { install_mnist(fashion_mnist(), folder.path(), folder.path("out")); }),
               {"train-images-idx3-ubyte", "that of Fashion-MNIST"});
  EXPECT_EQ(mnist().files.size(), fashion_mnist().files.size());
  EXPECT_EQ(fashion_classes().size(), 10u);
}

// --- CIFAR-10 ------------------------------------------------------------------------------------

/// Image i of a file: label `first` + i, and colour c of pixel p is 7 i + 3 p + 50 c.
uint8_t cifar_value(int i, int p, int c) { return static_cast<uint8_t>(7 * i + 3 * p + 50 * c); }

Bytes cifar_binary(int images, int first) {
  Bytes out;
  for (int i = 0; i < images; ++i) {
    out.push_back(static_cast<uint8_t>(first + i));
    for (int c = 0; c < 3; ++c)
      for (int p = 0; p < 1024; ++p) out.push_back(cifar_value(i, p, c));
  }
  return out;
}

Bytes cifar_png(int images) {
  Bytes rows;
  for (int i = 0; i < images; ++i)
    for (int p = 0; p < 1024; ++p)
      for (int c = 0; c < 3; ++c) rows.push_back(cifar_value(i, p, c));
  return test::png_of(1024, images, 3, rows);
}

/// A set of three files: training images with labels 0, 1 and 2, 3, 4, test images with 5, 6.
struct SmallCifar {
  TemporaryFolder folder;
  std::map<std::string, Bytes> contents = {
      {"one", cifar_binary(2, 0)}, {"two", cifar_binary(3, 2)}, {"test", cifar_binary(2, 5)}};
  CifarFiles files;

  SmallCifar() {
    for (const char* name : {"one", "two", "test"}) {
      const Bytes& bytes = contents.at(name);
      files.push_back({name, md5_hex(bytes.data(), bytes.size()), bytes.size() / 3073});
    }
  }
  void put(const std::string& name, const Bytes& bytes) const {
    write_file(folder.path(name), bytes.data(), bytes.size());
  }
  void put_package() const {
    for (const CifarFile& file : files) put(file.name + ".png", cifar_png(file.images));
    write_file(folder.path("train_lables.json"), "[0,1,2,3,4]");
    write_file(folder.path("test_lables.json"), "[5,6]");
  }
  std::string refusal() const {
    const std::string out = refused([&] { install_cifar10(folder.path(), installed(), files); });
    EXPECT_EQ(file_exists(installed()), out.empty()) << "half of it was installed";
    return out;
  }
  std::string installed() const { return folder.path("installed"); }
};

TEST(Cifar10, ThePackageBecomesTheBinaryVersion) {
  const SmallCifar cifar;
  cifar.put_package();
  EXPECT_EQ(cifar.refusal(), "");
  for (const auto& [name, bytes] : cifar.contents)
    EXPECT_EQ(read_file(join_path(cifar.installed(), name + ".bin")), bytes) << name;

  ImageSet train, test;
  load_cifar10(cifar.installed(), train, test, cifar.files);
  EXPECT_EQ(train.labels, (std::vector<Label>{0, 1, 2, 3, 4}));
  EXPECT_EQ(test.labels, (std::vector<Label>{5, 6}));
  EXPECT_EQ(train.pixels.size(), 5u * 3072);
  for (int c = 0; c < 3; ++c) EXPECT_EQ(train.image(4)[3 * 33 + c], cifar_value(2, 33, c));

  // The binary version itself.
  const TemporaryFolder copy;
  install_cifar10(cifar.installed(), copy.path(), cifar.files);
  EXPECT_EQ(read_file(copy.path("two.bin")), cifar.contents.at("two"));
}

TEST(Cifar10, NothingIsWrittenOfWhatIsNotTheOriginal) {
  const SmallCifar cifar;
  expect_words(cifar.refusal(), {"one.bin", "none", "orthobatch data get cifar10"});
  cifar.put("one.bin", cifar.contents.at("one"));
  cifar.put("two.bin", cifar_binary(3, 1));
  expect_words(cifar.refusal(), {"two.bin", "MD5 of the content", "that of CIFAR-10"});
  cifar.put("two.bin", cifar_binary(2, 2));
  expect_words(cifar.refusal(), {"two.bin", "size", "9219 bytes", "6146 bytes"});

  cifar.put_package();
  cifar.put("test.png", cifar_png(3));
  expect_words(cifar.refusal(), {"test.png", "expected 1024×2 pixels of 3 channels", "1024×3"});
  Bytes cut = cifar_png(2);
  cut.resize(cut.size() / 2);
  cifar.put("test.png", cut);
  expect_words(cifar.refusal(), {"test.png", "PNG"});
  cifar.put_package();
  write_file(cifar.folder.path("test_lables.json"), "[6,5]");
  expect_words(cifar.refusal(), {"test.png", "MD5 of the content"});
  for (const char* text : {"[5]", "[5,10]", "[5,-1]", "{}", "[5,\"6\"]"}) {
    write_file(cifar.folder.path("test_lables.json"), text);
    expect_words(cifar.refusal(), {"test_lables.json", "a list of 2 integers, 0 to 9"});
  }
  write_file(cifar.folder.path("test_lables.json"), "[5,");
  EXPECT_THROW(install_cifar10(cifar.folder.path(), cifar.installed(), cifar.files),
               std::invalid_argument);
  EXPECT_FALSE(file_exists(cifar.installed()));
}

// --- mat -----------------------------------------------------------------------------------------

ImageSet read_set(const Bytes& bytes) {
  MemorySource source(bytes.data(), bytes.size());
  ImageSet set;
  read_svhn(source, "some.mat", set);
  return set;
}

std::string mat_refusal(const Bytes& bytes) {
  return refused([&] { read_set(bytes); });
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
  expect_words(mat_refusal({}), {"some.mat", "header", "expected 128 bytes", "found 0 bytes"});
  Bytes bad = plain;
  std::memcpy(bad.data(), "MATLAB 7.3", 10);
  expect_words(mat_refusal(bad), {"header", "expected MAT version 5", "7.3"});
  bad = plain;
  bad[126] = 'M', bad[127] = 'I';
  expect_words(mat_refusal(bad), {"header", "little-endian"});
  for (const size_t keep : {size_t{130}, size_t{200}, size_t{3000}, plain.size() - 20})
    expect_words(mat_refusal(Bytes(plain.begin(), plain.begin() + keep)), {"some.mat", "expected"});
  for (const size_t keep : {packed.size() / 3, packed.size() - 3})
    expect_words(mat_refusal(Bytes(packed.begin(), packed.begin() + keep)),
                 {"compressed data", "cut off"});
  bad = packed;
  bad[packed.size() / 2] ^= 16;
  expect_words(mat_refusal(bad), {"compressed data", "expected an intact zlib stream"});
  bad = plain;
  bad.insert(bad.end(), 100, 3);
  expect_words(mat_refusal(bad), {"element 3", "type"});
}

TEST(Mat, RefusesVariablesThatAreNotSvhn) {
  using test::mat_file;
  using test::mat_variable;
  const Bytes two(2 * 3072), labels = {1, 10};
  const Bytes x = mat_variable("X", {32, 32, 3, 2}, two), y = mat_variable("y", {2, 1}, labels);
  EXPECT_EQ(mat_refusal(mat_file({y, x})), "");
  expect_words(mat_refusal(mat_file({x})), {"some.mat", "y", "found none"});
  expect_words(mat_refusal(mat_file({y})), {"some.mat", "X", "found none"});
  expect_words(mat_refusal(mat_file({x, x, y})), {"X", "another"});
  expect_words(mat_refusal(mat_file({mat_variable("X", {32, 32, 6}, two), y})),
               {"X", "expected 32x32x3xn uint8", "found 32x32x6 uint8"});
  expect_words(mat_refusal(mat_file({x, mat_variable("y", {3, 1}, {1, 2, 3})})),
               {"y", "expected 2 labels", "found 3"});
  expect_words(mat_refusal(mat_file({x, mat_variable("y", {2, 1}, {1, 11})})),
               {"y(2)", "expected 1 to 10", "found 11"});
  expect_words(mat_refusal(mat_file({x, mat_variable("y", {2, 1}, {0, 1})})), {"y(1)", "found 0"});
  expect_words(mat_refusal(mat_file({mat_variable("X", {32, 32, 3, 2000000}, two), y})),
               {"X: data", "expected 6144000000 bytes", "found 6144 bytes"});
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

}  // namespace
}  // namespace orthobatch
