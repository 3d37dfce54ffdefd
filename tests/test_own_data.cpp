// Folders of a user's own pictures: what is taken, as what, and what is left out.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/text.h"
#include "data/catalogue.h"
#include "data/image_size.h"
#include "data/listing.h"
#include "data/own_data.h"
#include "image_writer.h"
#include "io/checksum.h"
#include "io/gzip.h"
#include "io/temporary_folder.h"
#include "rooms.h"
#include "run/config.h"
#include "small_run.h"

namespace orthobatch {
namespace {

using test::png_of;

class OwnData : public ::testing::Test {
 protected:
  void put(const std::string& name, const Bytes& bytes) {
    make_directories(parent_path(folder_.path(name)));
    // Not write_file, which waits for the disk each time.
    std::ofstream(folder_.path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  /// A grey square.
  void put_image(const std::string& name, uint8_t grey = 99, int side = 16) {
    put(name, png_of(side, side, 1, Bytes(side * side, grey)));
  }
  void put_images(const std::string& under, int count, uint8_t grey = 99) {
    for (int i = 0; i < count; ++i) put_image(under + "/" + std::to_string(i) + ".png", grey);
  }
  DataRequest request(int threads = 2) const {
    DataRequest out{folder_.path(), ""};
    out.threads = threads;
    return out;
  }
  DataSet load() const { return load_data(request()); }
  std::string refused() const {
    try {
      load();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  /// Whether a line has all of these words.
  static bool tells(const std::vector<std::string>& lines, const std::string& words) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  }
  static std::vector<int64_t> train_counts(const DataSet& data) { return class_counts(data.train); }

  TemporaryFolder folder_;
};

TEST_F(OwnData, FoldersAreClasses) {
  put_images("cat", 30, 10);
  put_images("dog", 20, 200);
  const DataSet data = load();
  EXPECT_TRUE(data.own);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data.train.count() + data.test.count(), 50);
  EXPECT_GE(data.test.count(), 2);
  EXPECT_LE(data.test.count(), 15);
  EXPECT_EQ(data.train.classes, 2);
  EXPECT_EQ(data.train.channels, 1);
  EXPECT_EQ(data.train.width, 16);
  for (const ImageSet* set : {&data.train, &data.test})
    for (int64_t i = 0; i < set->count(); ++i)
      EXPECT_EQ(set->image(i)[0], set->labels[i] == 0 ? 10 : 200);
  EXPECT_TRUE(data.bad.empty());
}

TEST_F(OwnData, TrainAndTestFoldersAreTaken) {
  put_images("train/a", 3), put_images("train/b", 2);
  put_images("test/a", 1), put_images("test/b", 4);
  put_images("extra/c", 4);
  const DataSet data = load();
  EXPECT_EQ(data.train.count(), 5);
  EXPECT_EQ(data.test.count(), 5);
  EXPECT_EQ(data.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(tells(data.notes, "extra: skipped"));
  std::filesystem::rename(folder_.path("test"), folder_.path("val"));
  EXPECT_EQ(load().test.count(), 5);
  std::filesystem::rename(folder_.path("train"), folder_.path("Training"));
  std::filesystem::rename(folder_.path("val"), folder_.path("TESTING"));
  EXPECT_EQ(load().classes, (std::vector<std::string>{"a", "b"}));
}

TEST_F(OwnData, ClassesAreSortedNumbersByValue) {
  for (const char* name : {"10", "9", "b", "07", "a10", "a2"}) put_images(name, 2);
  EXPECT_EQ(load().classes, (std::vector<std::string>{"07", "9", "10", "a2", "a10", "b"}));
}

TEST_F(OwnData, WhatIsHeldOutDoesNotHangOnOthers) {
  put_images("a", 40), put_images("b", 40);
  const auto held_out = [&] {
    std::set<std::string> out;
    for (const ImageFile& file : list_images(folder_.path(), false, 1).files)
      if (file.test) out.insert(file.path);
    return out;
  };
  const std::set<std::string> before = held_out();
  ASSERT_GE(before.size(), 2u);
  for (int i = 100; i < 150; ++i) put_image("a/" + std::to_string(i) + ".png");
  const std::set<std::string> after = held_out();
  EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
  std::filesystem::rename(folder_.path("a"), folder_.path("moved"));
  EXPECT_GE(load().test.count(), 2);
}

TEST_F(OwnData, TheSameWithAnyThreads) {
  for (const char* name : {"a", "b", "c"})
    for (int i = 0; i < 20; ++i)
      put_image(std::string(name) + "/" + std::to_string(i), static_cast<uint8_t>(i * 11));
  const DataSet one = load_data(request(1)), many = load_data(request(7));
  EXPECT_EQ(one.train.pixels, many.train.pixels);
  EXPECT_EQ(one.train.labels, many.train.labels);
  EXPECT_EQ(one.test.pixels, many.test.pixels);
  // A first part has every class.
  const std::set<Label> first(one.train.labels.begin(), one.train.labels.begin() + 20);
  EXPECT_EQ(first.size(), 3u);
}

TEST_F(OwnData, BadFilesAreNamedAndLeftOut) {
  put_images("a", 10), put_images("b", 10);
  put("a/empty.png", {});
  put("b/notes.png", {'h', 'i', '\n'});
  const Bytes whole = png_of(16, 16, 1, Bytes(256, 9));
  put("b/cut.png", Bytes(whole.begin(), whole.begin() + 50));
  std::filesystem::create_symlink("nowhere", folder_.path("a/broken.png"));
  std::filesystem::create_symlink("loop.png", folder_.path("a/loop.png"));
  const DataSet data = load();
  EXPECT_EQ(data.train.count() + data.test.count(), 20);
  EXPECT_EQ(data.bad.size(), 5u);
  for (const char* words :
       {"a/empty.png: content: expected a PNG or JPEG image, found an empty file",
        "b/notes.png: content", "b/cut.png: PNG", "a/broken.png: cannot open",
        "a/loop.png: cannot open"})
    EXPECT_TRUE(tells(data.bad, words)) << words;
}

TEST_F(OwnData, WhatSystemsLeaveIsPassedOver) {
  put_images("a", 4), put_images("b", 4);
  for (const char* name : {".DS_Store", "a/.DS_Store", "a/Thumbs.db", "README.md", "b/desktop.ini",
                           ".git/config", "__MACOSX/a/x.png"})
    put(name, {1, 2, 3});
  const DataSet data = load();
  EXPECT_EQ(data.classes.size(), 2u);
  EXPECT_TRUE(data.bad.empty()) << data.bad.front();
  EXPECT_TRUE(data.notes.empty()) << data.notes.front();
  put_image("stray.png");
  EXPECT_TRUE(tells(load().notes, "1 images skipped"));
}

TEST_F(OwnData, LinksAndFoldersWithin) {
  put_images("a", 4), put_images("b/deep/er", 4);
  std::filesystem::create_symlink("..", folder_.path("a/up"));
  std::filesystem::create_symlink(".", folder_.path("again"));
  std::filesystem::create_directory_symlink(folder_.path("b"), folder_.path("c"));
  const DataSet data = load();
  EXPECT_EQ(data.classes, (std::vector<std::string>{"a", "b", "c"}));  // a link may be a class
  EXPECT_EQ(data.train.count() + data.test.count(), 12);
  EXPECT_TRUE(tells(data.notes, "a/up: skipped: a link to a folder"));
  EXPECT_TRUE(tells(data.notes, "again: skipped: a link back"));
}

TEST_F(OwnData, LinksOutOfTheFolderAreNotFollowed) {
  const TemporaryFolder outside;
  put_images("a", 4), put_images("b", 4);
  std::filesystem::copy(folder_.path("a"), outside.path("c"));
  std::filesystem::create_directory_symlink(outside.path("c"), folder_.path("c"));
  std::filesystem::create_directory_symlink("/", folder_.path("root"));
  std::filesystem::create_symlink(outside.path("c/0.png"), folder_.path("a/out.png"));
  std::filesystem::create_symlink("0.png", folder_.path("a/in.png"));
  const DataSet data = load();
  EXPECT_EQ(data.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.train.count() + data.test.count(), 9);
  for (const char* name : {"/c", "/a/out.png"})
    EXPECT_TRUE(tells(data.notes, name + std::string(": skipped: a link that leads out of")));
  EXPECT_TRUE(tells(data.notes, "/root: skipped: a link back"));
  DataRequest following = request();
  following.follow_links = true;
  EXPECT_EQ(load_data(following).train.count() + load_data(following).test.count(), 14);
  // A folder whose name begins as that of the data is outside too.
  const std::string beside = folder_.path() + "-beside";
  std::filesystem::copy(folder_.path("b"), beside);
  std::filesystem::create_directory_symlink(beside, folder_.path("beside"));
  EXPECT_TRUE(tells(load().notes, "/beside: skipped"));
  std::filesystem::remove_all(beside);
}

TEST_F(OwnData, ANameOfAnotherPlaceStaysInTheFolderThatIsNamed) {
  put_images("place/a", 4), put_images("place/b", 4);
  put_images("c", 4), put_images("d", 4);
  for (const char* name : {"/some/where/..", "/some/where/.", "/"}) {
    DataRequest moved{name, folder_.path("place")};
    EXPECT_EQ(load_data(moved).classes, (std::vector<std::string>{"a", "b"})) << name;
  }
  std::filesystem::create_directory_symlink("..", folder_.path("place/up"));
  EXPECT_EQ(load_data(DataRequest{"/some/up", folder_.path("place")}).classes.size(), 2u);
}

TEST_F(OwnData, NamesThatLookAlikeAreNotOneClass) {
  put_images("a\x01", 4), put_images("a\\x01", 4), put_images("b", 4);
  EXPECT_NE(refused().find("expected names that look different"), std::string::npos) << refused();
}

TEST_F(OwnData, TheChecksumIsOfAllPixelsAndLabels) {
  put_images("a", 10, 10), put_images("b", 10, 200);
  const DataSet data = load();
  EXPECT_EQ(load().checksum, data.checksum);
  const auto changed = [&](const auto& change) {
    DataSet other = data;
    change(other);
    other.checksum = checksum_of(other.train, other.test);
    EXPECT_EQ(other.scale.mean, data.scale.mean);
    EXPECT_THROW(require_same_data(describe_data(data), other, "run"), std::invalid_argument);
  };
  const auto& labels = data.train.labels;
  const auto k = std::find_if(labels.begin(), labels.end(),
                              [&](Label label) { return label != labels.front(); }) -
                 labels.begin();
  ASSERT_LT(k, data.train.count());
  const auto pixel = k * static_cast<int64_t>(data.train.pixels.size()) / data.train.count();
  changed([](DataSet& d) { d.test.pixels.front() ^= 1; });
  changed([&](DataSet& d) { std::swap(d.train.pixels[0], d.train.pixels[pixel]); });
  changed([&](DataSet& d) { std::swap(d.train.labels[0], d.train.labels[k]); });
  EXPECT_NO_THROW(require_same_data(describe_data(data), data, "run"));
}

TEST_F(OwnData, NamesOfAnyKind) {
  put_images("with space", 3), put_images("día", 3), put_images("new\nline", 3);
  put_images("no\xff utf", 3);
  put("día/bad\nname.png", {'x'});
  const DataSet data = load();
  EXPECT_EQ(data.classes,
            (std::vector<std::string>{"día", "new\\x0aline", "no\\xff utf", "with space"}));
  ASSERT_EQ(data.bad.size(), 1u);
  EXPECT_TRUE(tells(data.bad, "bad\\x0aname.png: content"));
  EXPECT_NO_THROW(describe_data(data).dump());
}

TEST_F(OwnData, OneImageInAClassIsForTraining) {
  put_images("a", 10), put_images("single", 1);
  const DataSet data = load();
  EXPECT_EQ(class_counts(data.train)[1], 1);
  EXPECT_EQ(class_counts(data.test)[1], 0);
}

TEST_F(OwnData, AClassWithoutImagesIsLeftOut) {
  put_images("a", 4), put_images("b", 4);
  make_directories(folder_.path("empty"));
  put("spoilt/x.png", {1});
  const Bytes whole = png_of(16, 16, 1, Bytes(256, 9));
  put("cut/y.png", Bytes(whole.begin(), whole.begin() + 50));
  const DataSet data = load();
  EXPECT_EQ(data.classes, (std::vector<std::string>{"a", "b"}));
  for (const char* name : {"empty", "spoilt", "cut"})
    EXPECT_TRUE(
        tells(data.notes, std::string("class ") + name + " skipped: no training image"));
  EXPECT_EQ(data.bad.size(), 2u);
}

TEST_F(OwnData, WhatCannotBeTrainedOnIsRefused) {
  EXPECT_NE(refused().find("folders: expected two or more"), std::string::npos) << refused();
  put_images("train", 3);
  EXPECT_NE(refused().find("expected a folder test, or val, beside it"), std::string::npos);
  std::filesystem::remove_all(folder_.path("train"));
  put("a/x.png", {1}), put("b/x.png", {1});
  EXPECT_NE(refused().find("images: expected PNG or JPEG files in folders of classes, found none "
                           "among 2 files"),
            std::string::npos)
      << refused();
  put_image("a/1.png"), put_image("b/1.png");
  EXPECT_NE(refused().find("test images: expected at least one"), std::string::npos) << refused();
  DataRequest nowhere = request();
  nowhere.name += "/nowhere";
  EXPECT_THROW(load_data(nowhere), FileError);
  nowhere.name = folder_.path("a/1.png");
  EXPECT_THROW(load_data(nowhere), FileError);
}

TEST_F(OwnData, ColourWhereOneImageHasIt) {
  put_images("a", 5), put_images("b", 5);
  Bytes grey_in_colour(16 * 16 * 3, 50), colour(16 * 16 * 3, 50);
  put("a/rgb.png", png_of(16, 16, 3, grey_in_colour));
  EXPECT_EQ(load().train.channels, 1);
  colour[3] = 51;
  put("a/colour.png", png_of(16, 16, 3, colour));
  const DataSet data = load();
  EXPECT_EQ(data.train.channels, 3);
  EXPECT_EQ(data.train.pixels.size(), static_cast<size_t>(data.train.count() * 16 * 16 * 3));
}

TEST_F(OwnData, TheCommonestSizeWithinLimits) {
  put_images("a", 3), put_images("b", 3);
  put_image("a/large.png", 9, 40);
  EXPECT_EQ(load().train.width, 16);
  EXPECT_TRUE(tells(load().notes, "images of 2 sizes, 16×16 to 40×40 pixels, most of them 16×16"));
  for (int i = 0; i < 9; ++i)
    put("b/wide" + std::to_string(i), png_of(256, 128, 1, Bytes(256 * 128, 9)));
  DataSet data = load();
  EXPECT_EQ(data.train.width, 64);
  EXPECT_EQ(data.train.height, 32);
  for (int i = 0; i < 20; ++i) put_image("b/small" + std::to_string(i), 9, 8);
  EXPECT_EQ(load().train.width, 16);
  DataRequest asked = request();
  asked.image_size = "7x9";
  data = load_data(asked);
  EXPECT_EQ(data.train.width, 7);
  EXPECT_EQ(data.train.height, 9);
  for (const char* bad : {"", "x", "7", "7x", "x7", "0x7", "7x9x2", "7x5000", "-1x2", "7 x9"})
    EXPECT_THROW(parse_image_size(bad, "here"), std::invalid_argument) << bad;
}

TEST_F(OwnData, ANetsOwnInputAndClasses) {
  put_images("dog", 20, 7), put_images("cat", 20, 9);
  DataRequest asked = request();
  asked.shape = ImageShape{10, 12, 3};
  asked.classes = {"ant", "cat", "dog"};
  asked.test_only = true;
  const DataSet data = load_data(asked);
  EXPECT_EQ(data.train.count(), 0);
  ASSERT_GE(data.test.count(), 2);
  EXPECT_EQ(data.test.height, 10);
  EXPECT_EQ(data.test.channels, 3);
  EXPECT_EQ(data.test.classes, 3);
  for (int64_t i = 0; i < data.test.count(); ++i)
    EXPECT_EQ(data.test.image(i)[0], data.test.labels[i] == 2 ? 7 : 9);
  asked.classes = {"cat", "cow"};
  EXPECT_THROW(load_data(asked), std::invalid_argument);
}

TEST_F(OwnData, MoreClassesThanAByteHolds) {
  for (int k = 0; k < 300; ++k)
    put_images("c" + std::to_string(k), 2, static_cast<uint8_t>(k % 256));
  const DataSet data = load();
  EXPECT_EQ(data.classes.size(), 300u);
  EXPECT_EQ(data.classes[299], "c299");
  EXPECT_EQ(class_counts(data.train), std::vector<int64_t>(300, 1));
  EXPECT_EQ(class_counts(data.test), std::vector<int64_t>(300, 1));
}

Bytes idx(std::vector<uint32_t> sizes, const Bytes& data) {
  Bytes out = {0, 0, 8, static_cast<uint8_t>(sizes.size())};
  for (const uint32_t n : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(n >> shift));
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

TEST_F(OwnData, IdxFiles) {
  // Labels 1 and 40, 30 images of 20×16.
  Bytes pixels(30 * 20 * 16), labels;
  for (int i = 0; i < 30; ++i) {
    labels.push_back(i % 2 ? 40 : 1);
    std::fill_n(pixels.begin() + i * 320, 320, static_cast<uint8_t>(i));
  }
  put("letters-images-idx3-ubyte.gz", gzip(idx({30, 20, 16}, pixels)));
  EXPECT_NE(refused().find("one with its labels beside it"), std::string::npos);
  put("letters-labels-idx1-ubyte", idx({30}, labels));
  const DataSet data = load();
  EXPECT_EQ(data.classes, (std::vector<std::string>{"1", "40"}));
  EXPECT_EQ(data.train.count(), 27);
  EXPECT_EQ(data.test.count(), 3);
  EXPECT_EQ(data.test.image(1)[0], 19);  // every tenth
  EXPECT_EQ(data.test.labels, (std::vector<Label>{1, 1, 1}));
  EXPECT_EQ(data.train.height, 20);
  EXPECT_EQ(data.train.width, 16);

  const TemporaryFolder other;
  const auto write = [&](const std::string& name, const Bytes& bytes) {
    write_file(other.path(name), bytes.data(), bytes.size());
  };
  write("train-images.idx4-ubyte", idx({2, 16, 16, 3}, Bytes(2 * 768, 5)));
  write("train-labels.idx1-ubyte", idx({2}, {0, 1}));
  write("t10k-images.idx4-ubyte", idx({1, 16, 16, 3}, Bytes(768, 6)));
  write("t10k-labels.idx1-ubyte", idx({1}, {1}));
  const DataSet pairs = load_data(DataRequest{other.path(), ""});
  EXPECT_EQ(pairs.train.count(), 2);
  EXPECT_EQ(pairs.test.count(), 1);
  EXPECT_EQ(pairs.test.channels, 1);  // R = G = B everywhere
  write("more-images-idx3-ubyte", idx({1, 1, 1}, {0}));
  write("more-labels-idx1-ubyte", idx({1}, {0}));
  EXPECT_THROW(load_data(DataRequest{other.path(), ""}), FileError);
}

TEST_F(OwnData, AnotherPlaceForTheSameName) {
  put_images("pics/a", 4), put_images("pics/b", 4);
  for (const std::string& place : {folder_.path(), folder_.path("pics")}) {
    DataRequest moved{"/where/it/was/pics", place};
    EXPECT_EQ(load_data(moved).classes.size(), 2u) << place;
  }
}

TEST_F(OwnData, NamesOfDataSetsAndFolders) {
  EXPECT_EQ(resolve_data("mnist"), "mnist");
  EXPECT_EQ(resolve_data("/a/b/../c/"), "/a/c");
  EXPECT_EQ(resolve_data(folder_.path()), folder_.path());
  EXPECT_THROW(resolve_data("mnits"), std::invalid_argument);
  EXPECT_THROW(resolve_data("./no\xff"), std::invalid_argument);
  EXPECT_TRUE(is_own_data("./mnist"));
  EXPECT_FALSE(is_own_data("mnist"));
  EXPECT_EQ(run_name("/data/my pics", "BN", 1), "my_pics-BN-seed1");
  EXPECT_EQ(run_name("svhn-train", "BN", 1), "svhn-train-BN-seed1");
}

TEST_F(OwnData, DefaultsFromWhatIsThere) {
  const auto config = [](const OwnSurvey& survey) {
    nlohmann::json json = own_defaults(survey);
    json["data"] = "/some/where";
    return config_from_json(json, "test");
  };
  const TrainConfig digits = config({100000, 28, 28, true}),
                    photos = config({100000, 64, 64, false});
  EXPECT_EQ(digits.net.blocks[0].channels, 16);
  EXPECT_EQ(digits.schedule.slow_epochs, 2);
  EXPECT_EQ(photos.net.blocks[0].channels, 32);
  EXPECT_EQ(photos.schedule.max_batch, 1024);
  EXPECT_TRUE(digits.augment.none() && photos.augment.none());
  EXPECT_EQ(digits.schedule.batch, 256);
  EXPECT_EQ(config({2000, 28, 28, true}).schedule.batch, 64);
  EXPECT_EQ(config({10, 28, 28, true}).schedule.batch, 32);
  // Batches do not grow to less than 30 steps an epoch, and fewer steps are not judged at once.
  const auto rules = [&](int64_t images) { return config({images, 64, 64, false}).schedule; };
  EXPECT_EQ(rules(271).max_batch, 32);
  EXPECT_EQ(rules(271).slow_epochs, 4);
  EXPECT_EQ(rules(2000).max_batch, 64);
  EXPECT_EQ(rules(2000).slow_epochs, 1);
  EXPECT_EQ(rules(20000).max_batch, 512);
  EXPECT_EQ(rules(100000).max_batch, 1024);
  for (int64_t images = 2; images < 200000; images = images * 5 / 4 + 1) {
    EXPECT_GE(rules(images).max_batch, rules(images).batch);
    if (rules(images).max_batch > rules(images).batch) {
      EXPECT_GE(images / rules(images).max_batch, 30);
    }
  }
  put_images("a", 20), put_images("b", 20);
  const OwnSurvey survey = survey_own(request());
  EXPECT_TRUE(survey.grey);
  EXPECT_EQ(survey.width, 16);
  EXPECT_EQ(survey.train_images, load().train.count());
  DataRequest part = request();
  part.subset = 7;
  EXPECT_EQ(survey_own(part).train_images, 7);
}

TEST_F(OwnData, ARunRemembersItsClasses) {
  put_images("left", 30, 10), put_images("right", 30, 200), put_images("up", 30, 100);
  const DataSet data = load();
  TrainConfig config = test::small_config();
  config.data = folder_.path();
  config.net.blocks = {{3, 1, 4, "BN"}};
  config.epochs = 1;
  config.schedule.batch = 16;
  const std::string run = folder_.path(".run");
  {
    RunFolder folder(run);
    Progress progress;
    const std::atomic<bool> stop{false};
    Trainer trainer(config, data, &folder, progress, stop);
    trainer.begin();
    ASSERT_EQ(trainer.run(), Trainer::Outcome::finished);
  }
  const Checkpoint checkpoint = read_checkpoint(run + "/last.safetensors");
  EXPECT_EQ(checkpoint.classes, (std::vector<std::string>{"left", "right", "up"}));
  EXPECT_EQ(checkpoint.net->fc->options.out_features(), 3);
  EXPECT_NO_THROW(require_same_data(checkpoint.found, data, "run"));
  put_images("down", 10);
  EXPECT_THROW(require_same_data(checkpoint.found, load(), "run"), std::invalid_argument);
  DigitNet net = checkpoint.net;
  const std::atomic<bool> never{false};
  EXPECT_THROW(evaluate(net, load().test, checkpoint.scale, never), std::invalid_argument);
}

TEST(Text, PrintableAndOrder) {
  EXPECT_EQ(printable("día λ 漢 😀"), "día λ 漢 😀");
  EXPECT_EQ(printable("a\tb\x1b[31m\x7f"), "a\\x09b\\x1b[31m\\x7f");
  // C1 controls, direction of writing, ends of lines, a mark of byte order.
  EXPECT_EQ(printable("\xc2\x9b|\xe2\x80\xae|\xe2\x80\xa8|\xef\xbb\xbf"),
            "\\xc2\\x9b|\\xe2\\x80\\xae|\\xe2\\x80\\xa8|\\xef\\xbb\\xbf");
  EXPECT_EQ(printable("two\nlines\r", "\n"), "two\nlines\\x0d");
  // A stray byte, one cut short, one too long, a surrogate, beyond the last.
  EXPECT_EQ(printable("\x80|\xc3|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80"),
            "\\x80|\\xc3|\\xc0\\xaf|\\xed\\xa0\\x80|\\xf4\\x90\\x80\\x80");
  const std::vector<std::string> sorted = {"",   "07", "7",   "8",    "10", "a",
                                           "a1", "a2", "a2b", "a010", "b"};
  for (size_t i = 0; i < sorted.size(); ++i)
    for (size_t j = 0; j < sorted.size(); ++j)
      EXPECT_EQ(comes_before(sorted[i], sorted[j]), i < j) << sorted[i] << " " << sorted[j];
}

}  // namespace
}  // namespace orthobatch
