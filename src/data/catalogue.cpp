#include "data/catalogue.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "base/text.h"
#include "data/cifar10.h"
#include "data/mnist.h"
#include "data/own_data.h"
#include "data/svhn.h"
#include "data/synthetic.h"
#include "io/checksum.h"
#include "io/file.h"

namespace orthobatch::data {
namespace {

/// One of data_names().
DataSet load_official(const std::string& name, const std::string& directory) {
  DataSet data;
  data.name = name;
  data.classes = digit_names();
  const std::string folder = name == "synthetic" ? "" : data_folder(name, directory);
  if (name == "synthetic") {
    load_synthetic(data.train, data.test);
  } else if (name == "mnist") {
    load_mnist(mnist(), folder, data.train, data.test);
  } else if (name == "fashion-mnist") {
    load_mnist(fashion_mnist(), folder, data.train, data.test);
    data.classes = fashion_classes();
  } else if (name == "cifar10") {
    load_cifar10(folder, data.train, data.test);
    data.classes = cifar10_classes();
  } else {
    const bool extra =
        name == "svhn" && io::file_exists(io::join_path(folder, svhn_files()[2].name));
    load_svhn(folder, extra, data.train, data.test);
  }
  return data;
}

}  // namespace

const std::vector<std::string>& data_names() {
  static const std::vector<std::string> names = {"mnist", "fashion-mnist", "cifar10",
                                                 "svhn",  "svhn-train",    "synthetic"};
  return names;
}

const std::vector<std::string>& digit_names() {
  static const std::vector<std::string> names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  return names;
}

bool is_own_data(const std::string& name) { return name.find('/') != std::string::npos; }

std::string data_title(const std::string& name) { return name.substr(name.find_last_of('/') + 1); }

void require_data_name(const std::string& name) {
  const auto& names = data_names();
  if (is_own_data(name) || std::find(names.begin(), names.end(), name) != names.end()) return;
  throw std::invalid_argument("data: expected " + base::join_choices(names) +
                              ", or a folder of images, found '" + base::printable(name) + "'" +
                              base::suggestion(name, names));
}

std::string resolve_data(const std::string& text) {
  const auto& names = data_names();
  if (std::find(names.begin(), names.end(), text) != names.end()) return text;
  std::error_code ignored;
  if (!is_own_data(text) && !std::filesystem::is_directory(text, ignored)) require_data_name(text);
  if (base::printable(text) != text)
    throw std::invalid_argument(
        "data: expected a path in UTF-8 without control characters, found " +
        base::printable(text));
  return absolute_folder(text);
}

std::string absolute_folder(const std::string& path) {
  std::string out = std::filesystem::absolute(path).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  return out;
}

std::string data_directory(const std::string& option) {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (!option.empty()) return option;
  if (const std::string own = variable("ORTHOBATCH_DATA"); !own.empty()) return own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return io::join_path(cache, "orthobatch");
  std::string home = variable("HOME");
  if (const passwd* user = home.empty() ? ::getpwuid(::getuid()) : nullptr; user && user->pw_dir)
    home = user->pw_dir;
  if (home.empty())
    throw std::runtime_error("no folder for data: give --data-dir, or set ORTHOBATCH_DATA or HOME");
  return io::join_path(home, ".cache/orthobatch");
}

std::string data_folder(const std::string& name, const std::string& directory) {
  const bool svhn = name.rfind("svhn", 0) == 0;
  const std::string own = io::join_path(directory, svhn ? "svhn" : name);
  const std::string probe = svhn                ? svhn_files()[0].name
                            : name == "cifar10" ? cifar10_files()[0].name + ".bin"
                                                : mnist().files[0].name;
  const bool here = io::file_exists(io::join_path(directory, probe)) ||
                    io::file_exists(io::join_path(directory, probe + ".gz"));
  return here && !io::file_exists(own) ? directory : own;
}

DataSet load_data(const std::string& name, const std::string& directory, int64_t subset) {
  return load_data(DataRequest{name, directory, subset});
}

DataSet load_data(const DataRequest& request) {
  const std::string& name = request.name;
  require_data_name(name);
  DataSet data;
  if (is_own_data(name)) {
    data = load_own(request);
  } else {
    data = load_official(name, name == "synthetic" ? "" : data_directory(request.data_dir));
  }
  if (request.subset > 0) data.train.keep_first(request.subset);
  data.scale = measure_scale(data.train);
  data.checksum = checksum_of(data.train, data.test);
  return data;
}

std::string checksum_of(const ImageSet& train, const ImageSet& test) {
  io::Md5 sum;
  for (const ImageSet* set : {&train, &test}) {
    const int64_t sizes[] = {set->count(), set->height, set->width, set->channels};
    sum.update(sizes, sizeof sizes);
    sum.update(set->pixels.data(), set->pixels.size());
    sum.update(set->labels.data(), set->labels.size() * sizeof(Label));
  }
  return sum.hex();
}

}  // namespace orthobatch::data
