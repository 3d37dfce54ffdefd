#include "train/found.h"

#include <cstddef>
#include <tuple>

#include "io/file.h"

namespace orthobatch {
namespace {

using nlohmann::json;

constexpr int64_t largest_side = 1 << 16, largest_channels = 16;

/// A list of `size` numbers from `low` to `high`, or none.
bool is_list(const json& object, const char* key, size_t size, double low, double high) {
  if (!object.is_object() || !object.contains(key)) return false;
  const json& list = object.at(key);
  if (!list.is_array() || list.size() != size) return false;
  for (const json& x : list)
    if (!x.is_number() || !(x.get<double>() >= low) || !(x.get<double>() <= high)) return false;
  return true;
}

}  // namespace

FoundData found_data(const json& config, const std::string& name) {
  const json found = config.is_object() && config.contains("found") ? config.at("found") : json();
  if (!is_list(found, "image", 3, 1, largest_side) ||
      found.at("image").at(2).get<int64_t>() > largest_channels)
    throw FileError(
        name, "config: found: image", "rows, columns and channels of the images",
        found.is_object() && found.contains("image") ? found.at("image").dump() : "none");
  const json& image = found.at("image");
  FoundData out;
  out.image = {image.at(0).get<int64_t>(), image.at(1).get<int64_t>(), image.at(2).get<int64_t>()};
  const auto channels = static_cast<size_t>(out.image.channels);
  for (const auto& [key, low, into] : {std::tuple{"mean", 0.0, &out.scale.mean},
                                       std::tuple{"deviation", 1e-9, &out.scale.deviation}}) {
    if (!is_list(found, key, channels, low, 1))
      throw FileError(name, std::string("config: found: ") + key,
                      "a number from 0 to 1 for each channel",
                      found.contains(key) ? found.at(key).dump() : "none");
    found.at(key).get_to(*into);
  }
  return out;
}

}  // namespace orthobatch
