#pragma once
// Image files for tests, by libpng and libjpeg themselves.

#include <png.h>

#include <cstddef>
#include <cstdio>
// Wants size_t and FILE.
#include <jpeglib.h>

#include <cstdint>
#include <cstdlib>
#include <vector>
#include "rooms.h"

namespace orthobatch::test {

using FileBytes = std::vector<uint8_t>;

struct PngSettings {
  int colour_type = PNG_COLOR_TYPE_GRAY, depth = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  std::vector<png_byte> palette_alpha = {};
};

/// `rows` is the data as PNG stores it: big-endian samples, whole bytes a row.
inline FileBytes png_bytes(int width, int height, const FileBytes& rows, PngSettings s = {}) {
  FileBytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto write = [](png_structp p, png_bytep data, size_t size) {
    auto& to = *static_cast<FileBytes*>(png_get_io_ptr(p));
    to.insert(to.end(), data, data + size);
  };
  png_set_write_fn(png, &out, write, nullptr);
  png_set_IHDR(png, info, width, height, s.depth, s.colour_type,
               s.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!s.palette.empty())
    png_set_PLTE(png, info, s.palette.data(), static_cast<int>(s.palette.size()));
  if (!s.palette_alpha.empty())
    png_set_tRNS(png, info, s.palette_alpha.data(), static_cast<int>(s.palette_alpha.size()),
                 nullptr);
  png_write_info(png, info);
  const size_t stride = rows.size() / height;
  std::vector<png_bytep> pointers;
  for (int y = 0; y < height; ++y)
    pointers.push_back(const_cast<png_bytep>(rows.data()) + y * stride);
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

inline FileBytes png_of(int width, int height, int channels, const FileBytes& pixels) {
  return png_bytes(width, height, pixels,
                   {channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, 8});
}

struct JpegSettings {
  int quality = 95;
  bool progressive = false;
  int orientation = 0;  ///< 0: no EXIF data
  int bits_apart = 0;   ///< of each coefficient of a grey image, in a scan each
};

/// Of 1 (grey), 3 (RGB) or 4 channels, which libjpeg takes as CMYK of Adobe's kind.
inline FileBytes jpeg_of(int width, int height, int channels, const FileBytes& pixels,
                         JpegSettings s = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, s.quality, TRUE);
  if (s.progressive) jpeg_simple_progression(&info);
  std::vector<jpeg_scan_info> scans;
  if (s.bits_apart > 0) {
    scans.push_back({1, {0}, 0, 0, 0, 0});
    for (int k = 1; k < DCTSIZE2; ++k)
      for (int bit = s.bits_apart; bit >= 0; --bit)
        scans.push_back({1, {0}, k, k, bit == s.bits_apart ? 0 : bit + 1, bit});
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  if (s.orientation > 0) {
    const FileBytes exif = {'E', 'x',  'i', 'f', 0,
                            0,   'I',  'I', 42,  0,
                            8,   0,    0,   0,   1,
                            0,   0x12, 1,   3,   0,
                            1,   0,    0,   0,   static_cast<uint8_t>(s.orientation),
                            0,   0,    0,   0,   0,
                            0,   0};
    jpeg_write_marker(&info, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.data()) +
                   static_cast<size_t>(info.next_scanline) * width * channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const FileBytes out(data, data + size);
  std::free(data);
  return out;
}

}  // namespace orthobatch::test
