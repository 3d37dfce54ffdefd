#pragma once
// What a trained net looks like inside, small enough to be shown on a page.

#include <nlohmann/json.hpp>

#include <string>

#include "data/catalogue.h"
#include "run/config.h"
#include "train/net.h"

namespace orthobatch::train {

/// pictures.json of a run. Arrays of bytes are base64:
///   layers[].before, after  correlations of the feature maps over `images` test images, with the
///                           statistics of evaluation: upper triangle by rows, 128 + 127 r
///   filters.data            the first convolution, count × height × width × channels,
///                           128 + 127 w / scale
///   samples.data            one training image of each class, of ten at most, as it is and as
///                           `columns` − 1 epochs see it: images of height × width × channels
nlohmann::ordered_json net_pictures(DigitNet& net, const data::DataSet& data,
                                    const run::TrainConfig& config, int64_t epoch);

/// Writes pictures.json of the best epoch into the folder of a run; where no epoch was the best yet,
/// nothing. Throws FileError where the checkpoint is of another run than `config`'s.
void draw_pictures(const std::string& folder, const data::DataSet& data,
                   const run::TrainConfig& config);

}  // namespace orthobatch::train
