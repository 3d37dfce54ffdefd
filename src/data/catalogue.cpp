#include "data/catalogue.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "core/text.h"
#include "data/mnist.h"
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
  const std::string home = variable("HOME");
  if (home.empty())
    throw std::runtime_error("no folder for data: give --data-dir, or set ORTHOBATCH_DATA or HOME");
  return join_path(home, ".cache/orthobatch");
}

DataSet load_data(const std::string& name, const std::string& directory, int64_t subset) {
  require_data_name(name);
  DataSet data;
  data.name = name;
  const std::string folder = join_path(directory, "mnist");
  load_mnist(folder, data.train, data.test);
  if (subset > 0) data.train.keep_first(subset);
  data.scale = measure_scale(data.train, data.train.channels > 1);
  return data;
}

}  // namespace orthobatch
