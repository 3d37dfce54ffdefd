// Files as they are written, checksums, and JSON that is refused.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "io/temporary_folder.h"

namespace orthobatch {
namespace {

TEST(Files, ALinkStaysOneAndAPipeTakesTheBytes) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  write_file(folder.path("file"), "old");
  fs::create_symlink("file", folder.path("link"));
  write_file(folder.path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
  EXPECT_EQ(read_text(folder.path("file")), "new");

  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const int reader = ::open(folder.path("pipe").c_str(), O_RDWR);
  ASSERT_GE(reader, 0);
  write_file(folder.path("pipe"), "bytes");
  char text[6] = {};
  EXPECT_EQ(::read(reader, text, 5), 5);
  ::close(reader);
  EXPECT_STREQ(text, "bytes");
  EXPECT_TRUE(fs::is_fifo(folder.path("pipe")));
  EXPECT_THROW(write_file("/dev/full", "x"), FileError);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
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
