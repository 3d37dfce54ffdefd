#include "io/jpeg_reader.h"

#include <cstddef>
#include <cstdio>
// Wants size_t and FILE.
#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <csetjmp>
#include <utility>

#include "io/exif.h"

namespace orthobatch::io {
namespace {

constexpr int most_scans = 200;              // progressive files have about ten
constexpr long most_memory = long{1} << 30;  // of coefficients
constexpr int exif_marker = JPEG_APP0 + 1;

struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg knows no more than this
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void give_up(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  (*info->err->format_message)(info, errors->message);
  std::longjmp(errors->back, 1);
}

/// What libjpeg goes on after, filling the rest with grey, is an end here; but not what leaves the
/// pixels as they are.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  switch (info->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_TOO_MUCH_DATA:
      return;
    default:
      give_up(info);
  }
}

/// A small file may have thousands of scans, each over the whole image.
void on_progress(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number <= most_scans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->message, sizeof errors->message, "expected at most %d scans, found more",
                most_scans);
  std::longjmp(errors->back, 1);
}

/// Each step returns false where libjpeg jumps back into it: nothing with a destructor may live in
/// these functions.
class JpegDecoder {
 public:
  JpegDecoder(const Bytes& bytes, const std::string& name) : name_(name) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = give_up;
    errors_.manager.emit_message = on_message;
    progress_.progress_monitor = on_progress;
    if (begin(bytes.data(), bytes.size())) return;
    jpeg_destroy_decompress(&info_);  // no destructor of what was not made
    fail();
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  const jpeg_decompress_struct& info() const { return info_; }

  int orientation() const {
    for (auto* marker = info_.marker_list; marker; marker = marker->next)
      if (marker->marker == exif_marker) return exif_orientation(marker->data, marker->data_length);
    return 1;
  }

  /// At 1/`part` of its size.
  Pixels read(unsigned part) {
    info_.scale_num = 1;
    info_.scale_denom = part;
    info_.out_color_space = info_.num_components == 1   ? JCS_GRAYSCALE
                            : info_.num_components == 3 ? JCS_RGB
                                                        : JCS_CMYK;
    if (!start()) fail();
    Pixels out{static_cast<int>(info_.output_width),
               static_cast<int>(info_.output_height),
               info_.output_components,
               {}};
    const size_t stride = size_t{info_.output_width} * info_.output_components;
    out.bytes.resize(stride * info_.output_height);
    if (!rows(out.bytes.data(), stride)) fail();
    return out;
  }

 private:
  [[noreturn]] void fail() const {
    throw FileError(name_, std::string("JPEG: ") + errors_.message);
  }

  bool begin(const uint8_t* data, size_t size) {
    if (setjmp(errors_.back)) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    info_.mem->max_memory_to_use = most_memory;
    jpeg_save_markers(&info_, exif_marker, 0xffff);
    jpeg_mem_src(&info_, data, static_cast<unsigned long>(size));
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool start() {
    if (setjmp(errors_.back)) return false;
    jpeg_start_decompress(&info_);
    return true;
  }

  bool rows(uint8_t* out, size_t stride) {
    if (setjmp(errors_.back)) return false;
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = out + stride * info_.output_scanline;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  const std::string& name_;
  jpeg_decompress_struct info_{};
  JpegErrors errors_{};
  jpeg_progress_mgr progress_{};
};

/// Adobe's programs store CMYK the other way round, and say who they are.
void cmyk_to_rgb(Pixels& image, bool inverted) {
  uint8_t* out = image.bytes.data();
  const uint8_t flip = inverted ? 0 : 255;
  for (size_t i = 0; i < image.bytes.size(); i += 4) {
    const unsigned black = image.bytes[i + 3] ^ flip;
    for (size_t c = 0; c < 3; ++c)
      *out++ = static_cast<uint8_t>(((image.bytes[i + c] ^ flip) * black + 127) / 255);
  }
  image.channels = 3;
  image.bytes.resize(out - image.bytes.data());
}

void check_head(const jpeg_decompress_struct& info, const std::string& name, int64_t limit) {
  const int64_t width = info.image_width, height = info.image_height;
  if (width < 1 || height < 1 || width * height > limit)
    throw FileError(name, "JPEG", "1 to " + std::to_string(limit) + " pixels",
                    std::to_string(width) + "×" + std::to_string(height));
  if (info.num_components != 1 && info.num_components != 3 && info.num_components != 4)
    throw FileError(name, "JPEG", "1, 3 or 4 components", std::to_string(info.num_components));
}

}  // namespace

bool is_jpeg(const Bytes& bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

PixelSize jpeg_size(const Bytes& bytes, const std::string& name, int64_t limit) {
  const JpegDecoder decoder(bytes, name);
  check_head(decoder.info(), name, limit);
  PixelSize size{static_cast<int>(decoder.info().image_width),
                 static_cast<int>(decoder.info().image_height), decoder.info().num_components == 1};
  if (swaps_sides(decoder.orientation())) std::swap(size.width, size.height);
  return size;
}

Pixels decode_jpeg(const Bytes& bytes, const std::string& name, int64_t limit, int least_width,
                   int least_height) {
  JpegDecoder decoder(bytes, name);
  check_head(decoder.info(), name, limit);
  const int orientation = decoder.orientation();
  if (swaps_sides(orientation)) std::swap(least_width, least_height);
  const auto enough = [&](unsigned part) {
    return int64_t{decoder.info().image_width} >= int64_t{2} * part * least_width &&
           int64_t{decoder.info().image_height} >= int64_t{2} * part * least_height;
  };
  unsigned part = 1;
  if (least_width > 0 && least_height > 0)
    while (part < 8 && enough(2 * part)) part *= 2;
  Pixels out = decoder.read(part);
  if (out.channels == 4) cmyk_to_rgb(out, decoder.info().saw_Adobe_marker);
  return upright(std::move(out), orientation);
}

}  // namespace orthobatch::io
