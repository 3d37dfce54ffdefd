// A folder of pictures that can be told apart, for the tests of the program:
//   make_images DIR CLASSES PER_CLASS WIDTH HEIGHT grey|colour png|jpeg|mixed
// Files are DIR/K/N.png; mixed: every other one is a JPEG all the same.

#include <algorithm>
#include <cstdio>
#include <string>

#include "data/random.h"
#include "image_writer.h"
#include "io/file.h"
#include "rooms.h"

namespace orthobatch {
namespace {

/// A bright spot on noise; where it is, and in colour of what hue, is the class.
Bytes spot(int label, int classes, int width, int height, int channels, Random& random) {
  Bytes pixels(static_cast<size_t>(width) * height * channels);
  for (uint8_t& p : pixels) p = static_cast<uint8_t>(random.below(60));
  int across = 1;
  while (across * across < classes) ++across;
  const double cx = (label % across + random.uniform(0.35, 0.65)) * width / across;
  const double cy = (label / across + random.uniform(0.35, 0.65)) * height / across;
  const double radius = 0.35 * std::min(width, height) / across + 1;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      if ((x - cx) * (x - cx) + (y - cy) * (y - cy) > radius * radius) continue;
      for (int c = 0; c < channels; ++c)
        pixels[(static_cast<size_t>(y) * width + x) * channels + c] =
            channels == 3 && c == label % 3 ? 90 : 230;
    }
  return pixels;
}

}  // namespace
}  // namespace orthobatch

int main(int argc, char** argv) {
  using namespace orthobatch;
  if (argc != 8) return 2;
  const std::string folder = argv[1], kind = argv[7];
  const int classes = std::stoi(argv[2]), count = std::stoi(argv[3]), width = std::stoi(argv[4]),
            height = std::stoi(argv[5]), channels = std::string(argv[6]) == "grey" ? 1 : 3;
  Random random(7);
  for (int k = 0; k < classes; ++k) {
    const std::string own = join_path(folder, std::to_string(k));
    make_directories(own);
    for (int i = 0; i < count; ++i) {
      const Bytes pixels = spot(k, classes, width, height, channels, random);
      const bool jpeg = kind == "jpeg" || (kind == "mixed" && i % 2 == 1);
      const Bytes file = jpeg ? test::jpeg_of(width, height, channels, pixels)
                              : test::png_of(width, height, channels, pixels);
      std::FILE* out = std::fopen(
          join_path(own, std::to_string(i) + (kind == "jpeg" ? ".jpg" : ".png")).c_str(), "wb");
      if (!out || std::fwrite(file.data(), 1, file.size(), out) != file.size() ||
          std::fclose(out) != 0)
        return 1;
    }
  }
  return 0;
}
