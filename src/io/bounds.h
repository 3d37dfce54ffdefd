#pragma once
// How much a file may ask for. Each is looked at before memory is taken.

#include <cstdint>
#include <string>

namespace orthobatch::io {

/// Pixels of a PNG or JPEG file: 8192×8192.
constexpr int64_t most_pixels = int64_t{1} << 26;
/// Rows and columns of the images of a data set.
constexpr int64_t largest_side = 4096;
/// An idx file, raw or unpacked.
constexpr uint64_t largest_idx = uint64_t{1} << 31;
constexpr uint64_t largest_image_file = uint64_t{1} << 28;
constexpr uint64_t largest_checkpoint = uint64_t{1} << 32;
/// What a net makes of one image, in bytes.
constexpr double largest_map = 1 << 30;

/// Beyond the first, compressed data is at most so many times what it is compressed to: pictures
/// are packed to a half or a tenth, zeros to a thousandth.
constexpr uint64_t freely_unpacked = uint64_t{1} << 24, most_packed = 100;

/// Throws FileError where so many bytes are more than 0.8 of the machine's memory. `what` says of
/// what they are, `help` what to do.
void require_memory(double bytes, const std::string& path, const std::string& what,
                    const std::string& help);

}  // namespace orthobatch::io
