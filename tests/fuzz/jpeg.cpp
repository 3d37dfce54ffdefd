#include "io/jpeg_reader.h"

#include "fuzz.h"
#include "image_writer.h"

void parse_bytes(const std::vector<uint8_t>& bytes) {
  const orthobatch::Pixels image = orthobatch::decode_jpeg(bytes, "fuzz.jpg", 1 << 16, 4, 4);
  if (image.bytes.size() != size_t{1} * image.width * image.height * image.channels)
    throw std::logic_error("an image of another size");
}

std::vector<std::vector<uint8_t>> corpus() {
  using orthobatch::test::jpeg_of;
  std::vector<uint8_t> noise(24 * 16 * 4);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint8_t>(i * i * 7);
  return {jpeg_of(24, 16, 1, noise), jpeg_of(24, 16, 3, noise, {60, true}),
          jpeg_of(24, 16, 3, noise, {80, false, 6}), jpeg_of(24, 16, 4, noise)};
}
