// Files as they are written, checksums, and JSON that is refused.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "io/source.h"
#include "io/temporary_folder.h"
#include "nn/message.h"
#include "rooms.h"

namespace orthobatch {
namespace {

namespace fs = std::filesystem;

std::string complaint_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const FileError& error) {
    return error.what();
  }
  return "no complaint";
}

void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' not in: " << message;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Files, WhereTheUserNamesItALinkStaysOneAndAPipeTakesTheBytes) {
  const TemporaryFolder folder;
  write_file(folder.path("file"), "old");
  fs::create_symlink("file", folder.path("link"));
  write_output(folder.path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
  EXPECT_EQ(read_text(folder.path("file")), "new");

  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const int reader = ::open(folder.path("pipe").c_str(), O_RDWR);
  ASSERT_GE(reader, 0);
  write_output(folder.path("pipe"), "bytes");
  char text[6] = {};
  EXPECT_EQ(::read(reader, text, 5), 5);
  ::close(reader);
  EXPECT_STREQ(text, "bytes");
  EXPECT_TRUE(fs::is_fifo(folder.path("pipe")));
  EXPECT_THROW(write_output("/dev/full", "x"), FileError);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  expect_says(complaint_of([&] { write_output(folder.path("pipe"), "x"); }),
              "nobody reads from it");
}

TEST(Files, ALinkInTheWayIsReplacedAndItsTargetUntouched) {
  const TemporaryFolder folder;
  write_file(folder.path("target"), "theirs");
  fs::create_symlink("target", folder.path("metrics.jsonl"));
  fs::create_symlink("new", folder.path("config.json"));
  ASSERT_EQ(::mkfifo(folder.path("pictures.json").c_str(), 0600), 0);
  for (const char* name : {"metrics.jsonl", "config.json", "pictures.json"}) {
    write_file(folder.path(name), "ours");
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder.path(name)))) << name;
    EXPECT_EQ(read_text(folder.path(name)), "ours");
  }
  EXPECT_EQ(read_text(folder.path("target")), "theirs");
  EXPECT_EQ(names_in(folder.path()),
            (std::vector<std::string>{"config.json", "metrics.jsonl", "pictures.json", "target"}));
}

TEST(Files, AFolderInTheWayIsRefusedAndNothingIsLeftBehind) {
  const TemporaryFolder folder;
  make_directories(folder.path("name/inside"));
  EXPECT_THROW(write_file(folder.path("name"), "text"), FileError);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"name"});
}

TEST(Files, TemporaryNamesAreKnownAndNothingElseIs) {
  EXPECT_TRUE(is_temporary_name("metrics.jsonl.tmp0123456789abcdef"));
  for (const char* name :
       {"notes.tmp", "a.tmp1", "a.tmp0123456789abcdeg", "a.tmp0123456789abcdef0",
        ".tmp0123456789abcdef", "a.tmp0123456789ABCDEF", "tmp0123456789abcdef", "metrics.jsonl"})
    EXPECT_FALSE(is_temporary_name(name)) << name;
}

TEST(Files, WhatIsNoRegularFileIsNamedWithoutWaiting) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const std::pair<std::string, const char*> places[] = {{folder.path("pipe"), "found a pipe"},
                                                        {folder.path(), "found a folder"},
                                                        {"/dev/zero", "found a device"}};
  for (const auto& [path, found] : places) {
    expect_says(complaint_of([&] { read_file(path); }), found);
    expect_says(complaint_of([&] { FileSource{path}; }), found);
    expect_says(complaint_of([&] { md5_of_file(path); }), found);
  }
  expect_says(complaint_of([&] { open_own_file(folder.path("pipe")); }), "found a pipe");
  expect_says(complaint_of([&] { open_own_file(folder.path()); }), "found a folder");
  fs::create_symlink("target", folder.path("link"));
  expect_says(complaint_of([&] { open_own_file(folder.path("link")); }), "found a link");
  EXPECT_FALSE(file_exists(folder.path("target")));
}

TEST(Files, InputMayComeFromAPipe) {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto write_late = [&](const std::string& text) {
    return std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const int writer = ::open(pipe.c_str(), O_WRONLY);
      for (const char c : text) {  // in pieces
        EXPECT_EQ(::write(writer, &c, 1), 1);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      ::close(writer);
    });
  };
  std::thread writer = write_late("{\"epochs\": 3}");
  EXPECT_EQ(read_input(pipe), "{\"epochs\": 3}");
  writer.join();
  expect_says(complaint_of([&] { read_input(pipe); }), "nobody writes to this pipe");
  expect_says(complaint_of([&] { read_input("/dev/zero", 1000); }), "at most 1000 bytes");
  expect_says(complaint_of([&] { read_input(folder.path()); }), "found a folder");
  write_file(folder.path("file"), "text");
  EXPECT_EQ(read_input(folder.path("file")), "text");
}

TEST(Messages, OfExceptionsAreOneLineAndSayWhenMemoryIsShort) {
  EXPECT_EQ(message_of(std::runtime_error("plain")), "plain");
  expect_says(message_of(std::bad_alloc()), "out of memory");
  try {
    const torch::Tensor all = torch::empty({int64_t{1} << 56});
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_EQ(message_of(error), "out of memory: could not allocate 288230376151711744 bytes");
  }
  try {
    TORCH_CHECK(false, "a reason");
  } catch (const std::exception& error) {
    EXPECT_EQ(message_of(error), "a reason");
  }
}

TEST(Checksum, Md5OfKnownTexts) {
  const auto md5 = [](const std::string& s) { return md5_hex(s.data(), s.size()); };
  EXPECT_EQ(md5(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(Checksum, Md5InPiecesOfAnySize) {
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  for (const size_t piece : {1, 55, 56, 63, 64, 65, 119, 128}) {
    Md5 sum;
    for (size_t i = 0; i < text.size(); i += piece)
      sum.update(text.data() + i, std::min(piece, text.size() - i));
    EXPECT_EQ(sum.hex(), md5_hex(text.data(), text.size())) << piece;
  }
}

TEST(Checksum, OfAFileIsThatOfItsBytes) {
  const TemporaryFolder folder;
  const std::string text(3000000, 'y');  // more than is read at once
  write_file(folder.path("file"), text);
  EXPECT_EQ(md5_of_file(folder.path("file")), md5_hex(text.data(), text.size()));
  EXPECT_THROW(md5_of_file(folder.path("none")), FileError);
}

TEST(Checksum, Crc32cOfKnownText) { EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u); }

std::string json_refusal(const std::string& text) {
  EXPECT_TRUE(parse_json_or_null(text).is_null());
  try {
    parse_json(text, "a.json");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Json, NestsSoFarAndNoFurther) {
  const auto lists = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const auto objects = [](int depth) {
    std::string text = "1";
    for (int i = 0; i < depth; ++i) text = R"({"a":)" + text + "}";
    return text;
  };
  const std::string refused = "a.json: expected lists and objects nested up to 64, found more";
  EXPECT_NO_THROW(parse_json(lists(64), "a.json"));
  EXPECT_NO_THROW(parse_json(objects(64), "a.json"));
  EXPECT_NO_THROW(parse_json('"' + std::string(100, '[') + '"', "a.json")) << "a text is no list";
  EXPECT_EQ(json_refusal(lists(65)), refused);
  EXPECT_EQ(json_refusal(objects(65)), refused);
  EXPECT_EQ(json_refusal(std::string(5000000, '[')), refused);
}

TEST(Json, SaysWhereItIsNone) {
  EXPECT_EQ(json_refusal("{\n  \"a\": 1,\n  b\n}"), "a.json: line 3, column 3: not JSON");
  EXPECT_EQ(json_refusal(""), "a.json: line 1, column 1: not JSON");
  EXPECT_EQ(json_refusal("1e400"), "a.json: expected numbers up to 1.8e+308, found a larger one");
}

}  // namespace
}  // namespace orthobatch
