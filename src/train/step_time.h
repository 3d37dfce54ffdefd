#pragma once

#include "data/images.h"
#include "run/config.h"

namespace orthobatch::train {

/// Seconds of a training step of a config's first batch size, of `images` at most, on noise: the
/// least of three after one to warm up. A second or two.
double step_seconds(const run::TrainConfig& config, const data::ImageShape& image, int64_t classes,
                    int64_t images);

}  // namespace orthobatch::train
