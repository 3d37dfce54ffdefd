#include "data/svhn.h"

#include <algorithm>
#include <optional>

#include "data/mat.h"
#include "io/bounds.h"
#include "io/file.h"

namespace orthobatch::data {
namespace {

constexpr int side = 32, colours = 3;
constexpr int64_t pixels = int64_t{side} * side * colours;
constexpr int64_t at_once = 256;

void check_images(const MatVariable& x, const std::string& name) {
  const auto& d = x.dimensions;
  const bool fits = x.type == "uint8" && (d.size() == 3 || d.size() == 4) && d[0] == side &&
                    d[1] == side && d[2] == colours && x.count > 0;
  if (!fits) throw io::FileError(name, "X", "32x32x3xn uint8", x.shape_text());
}

/// By columns, colour by colour, to rows of pixels.
void transpose(const uint8_t* by_columns, uint8_t* out) {
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column)
      for (int c = 0; c < colours; ++c) *out++ = by_columns[(c * side + column) * side + row];
}

void append_images(const MatVariable& x, ImageSet& into) {
  const int64_t count = x.count / pixels;
  std::vector<uint8_t> piece(at_once * pixels);
  for (int64_t done = 0; done < count;) {
    const int64_t n = std::min(at_once, count - done);
    x.read(piece.data(), n * pixels);
    // Grown as the data comes: a file that lies about its size costs nothing.
    const size_t before = into.pixels.size();
    into.pixels.resize(before + n * pixels);
    for (int64_t i = 0; i < n; ++i)
      transpose(piece.data() + i * pixels, into.pixels.data() + before + i * pixels);
    done += n;
  }
}

void append_labels(const MatVariable& y, const std::string& name, ImageSet& into) {
  if (y.count > 100000000 || y.dimensions.size() != 2 ||
      (y.dimensions[0] != 1 && y.dimensions[1] != 1))
    throw io::FileError(name, "y", "n x 1 labels", y.shape_text());
  const std::vector<double> values = y.values();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= 1 && values[i] <= 10) || values[i] != static_cast<int>(values[i]))
      throw io::FileError(name, "y(" + std::to_string(i + 1) + ")", "1 to 10 (10 is digit 0)",
                          std::to_string(values[i]));
    into.labels.push_back(static_cast<uint8_t>(static_cast<int>(values[i]) % 10));
  }
}

}  // namespace

const std::vector<SvhnFile>& svhn_files() {
  static const std::vector<SvhnFile> files = {
      {"train_32x32.mat", "train", "e26dedcc434d2e4c54c9b2d4a06d8373", 73257},
      {"test_32x32.mat", "test", "eb5a983be6a315427106f1b164d9cef3", 26032},
      {"extra_32x32.mat", "extra", "a93ce644f1a588dc4d68dda5feec44a7", 531131}};
  return files;
}

void read_svhn(io::Source& source, const std::string& name, ImageSet& into) {
  into.height = into.width = side;
  into.channels = colours;
  const auto images_before = into.pixels.size();
  const auto labels_before = into.labels.size();
  bool found_x = false, found_y = false;
  read_mat(source, name, [&](MatVariable& v) {
    bool& found = v.name == "X" ? found_x : found_y;
    if (v.name != "X" && v.name != "y") return Visit::go_on;
    if (found) throw io::FileError(name, v.name, "one variable of this name", "another");
    found = true;
    if (v.name == "X") {
      check_images(v, name);
      append_images(v, into);
    } else {
      append_labels(v, name, into);
    }
    return Visit::go_on;
  });
  if (!found_x) throw io::FileError(name, "X", "a variable of this name", "none");
  if (!found_y) throw io::FileError(name, "y", "a variable of this name", "none");
  const size_t images = (into.pixels.size() - images_before) / pixels;
  const size_t labels = into.labels.size() - labels_before;
  if (images != labels)
    throw io::FileError(name, "y", std::to_string(images) + " labels, one for each image",
                        std::to_string(labels));
}

int64_t count_svhn(const std::string& path) {
  io::FileSource source(path);
  std::optional<int64_t> images;
  read_mat(source, path, [&](MatVariable& v) {
    if (v.name != "X") return Visit::go_on;
    check_images(v, path);
    images = v.count / pixels;
    return Visit::stop;
  });
  if (!images) throw io::FileError(path, "X", "a variable of this name", "none");
  return *images;
}

void load_svhn(const std::string& folder, bool extra, ImageSet& train, ImageSet& test) {
  const auto path_of = [&](const SvhnFile& file) {
    const std::string path = io::join_path(folder, file.name);
    if (!io::file_exists(path))
      throw io::FileError(path, "file", "SVHN's " + std::string(file.part) + " images",
                          "none; 'orthobatch data get svhn' says where to get it");
    return path;
  };
  const auto& files = svhn_files();
  std::vector<std::string> training = {path_of(files[0])};
  if (extra) training.push_back(path_of(files[2]));
  const std::string test_path = path_of(files[1]);
  int64_t total = 0;
  for (const std::string& path : training) total += count_svhn(path);
  io::require_memory(static_cast<double>(total) * pixels, folder,
                     std::to_string(total) + " images in the heads of its files", "");
  // Room for all at once: growing to it would hold the images twice.
  train.pixels.reserve(static_cast<size_t>(total * pixels));
  train.labels.reserve(static_cast<size_t>(total));
  for (const std::string& path : training) {
    io::FileSource source(path);
    read_svhn(source, path, train);
  }
  io::FileSource source(test_path);
  read_svhn(source, test_path, test);
  train.name = extra ? "svhn train and extra" : "svhn train";
  test.name = "svhn test";
}

}  // namespace orthobatch::data
