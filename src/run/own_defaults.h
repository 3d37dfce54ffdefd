#pragma once

#include "data/own_data.h"
#include "run/config.h"

namespace orthobatch {

/// Settings for a user's own pictures, as config.json has them: the paper's net and rules for MNIST
/// where the images are small and grey, else those for SVHN; and a batch that leaves an epoch of
/// few images enough steps.
nlohmann::json own_defaults(const OwnSurvey& survey);

}  // namespace orthobatch
