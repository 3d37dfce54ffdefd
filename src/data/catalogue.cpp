#include "data/catalogue.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "base/text.h"
#include "data/mnist.h"
#include "data/svhn.h"
#include "data/synthetic.h"
#include "io/file.h"

namespace orthobatch {

const std::vector<std::string>& data_names() {
  static const std::vector<std::string> names = {"mnist", "svhn", "svhn-train", "synthetic"};
  return names;
}

void require_data_name(const std::string& name) {
  const auto& names = data_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw std::invalid_argument("data: expected " + join_choices(names) + ", found '" + name + "'" +
                                suggestion(name, names));
}

std::string data_directory(const std::string& option) {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (!option.empty()) return option;
  if (const std::string own = variable("ORTHOBATCH_DATA"); !own.empty()) return own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return join_path(cache, "orthobatch");
  std::string home = variable("HOME");
  if (const passwd* user = home.empty() ? ::getpwuid(::getuid()) : nullptr; user && user->pw_dir)
    home = user->pw_dir;
  if (home.empty())
    throw std::runtime_error("no folder for data: give --data-dir, or set ORTHOBATCH_DATA or HOME");
  return join_path(home, ".cache/orthobatch");
}

std::string data_folder(const std::string& name, const std::string& directory) {
  const bool mnist = name == "mnist";
  const std::string own = join_path(directory, mnist ? "mnist" : "svhn");
  const std::string probe = mnist ? mnist_files()[0].name : svhn_files()[0].name;
  const bool here =
      file_exists(join_path(directory, probe)) || file_exists(join_path(directory, probe + ".gz"));
  return here && !file_exists(own) ? directory : own;
}

DataSet load_data(const std::string& name, const std::string& directory, int64_t subset) {
  require_data_name(name);
  DataSet data;
  data.name = name;
  if (name == "synthetic") {
    load_synthetic(data.train, data.test);
  } else if (name == "mnist") {
    load_mnist(data_folder(name, directory), data.train, data.test);
  } else {
    const std::string folder = data_folder(name, directory);
    const bool extra = name == "svhn" && file_exists(join_path(folder, svhn_files()[2].name));
    load_svhn(folder, extra, data.train, data.test);
  }
  if (subset > 0) data.train.keep_first(subset);
  data.scale = measure_scale(data.train);
  return data;
}

}  // namespace orthobatch
