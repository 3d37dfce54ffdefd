#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "data/images.h"

namespace orthobatch {

/// What a run's config records under "found" of the images it is trained on.
struct FoundData {
  ImageShape image;
  InputScale scale;
};

/// Throws FileError that names `name` where it is not there or not of images.
FoundData found_data(const nlohmann::json& config, const std::string& name);

}  // namespace orthobatch
