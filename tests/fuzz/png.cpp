#include "io/png_reader.h"

#include "fuzz.h"
#include "image_writer.h"

void parse_bytes(const std::vector<uint8_t>& bytes) {
  const orthobatch::Pixels image = orthobatch::decode_png(bytes, "fuzz.png", 1 << 16);
  if (image.bytes.size() != size_t{1} * image.width * image.height * image.channels)
    throw std::logic_error("an image of another size");
}

std::vector<std::vector<uint8_t>> corpus() {
  using orthobatch::test::png_bytes;
  std::vector<uint8_t> noise(5 * 4 * 8);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint8_t>(i * i * 7);
  const auto rows = [&](size_t stride) {
    return std::vector<uint8_t>(noise.begin(), noise.begin() + 4 * stride);
  };
  return {png_bytes(5, 4, rows(5), {PNG_COLOR_TYPE_GRAY, 8}),
          png_bytes(5, 4, rows(1), {PNG_COLOR_TYPE_GRAY, 1}),
          png_bytes(5, 4, rows(20), {PNG_COLOR_TYPE_RGBA, 8, true}),
          png_bytes(5, 4, rows(30), {PNG_COLOR_TYPE_RGB, 16}),
          png_bytes(5, 4, std::vector<uint8_t>(20, 1),
                    {PNG_COLOR_TYPE_PALETTE, 8, false, {{1, 2, 3}, {200, 100, 0}}, {255, 7}})};
}
