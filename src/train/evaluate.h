#pragma once

#include <atomic>
#include <optional>

#include "data/images.h"
#include "ranks/ranks.h"
#include "train/net.h"

namespace orthobatch::train {

/// So many images of a set from `first` on as the net takes them: (n, channels, rows, columns),
/// channels last, not augmented.
torch::Tensor net_input(const data::ImageSet& images, const data::InputScale& scale, int64_t first,
                        int64_t n);

/// A net's answers over a whole set.
struct Evaluation {
  int64_t images = 0, wrong = 0;
  double loss = 0;  ///< mean cross-entropy
  data::Confusion confusion;

  double error_percent() const {
    return images > 0 ? 100.0 * static_cast<double>(wrong) / static_cast<double>(images) : 0;
  }
};

/// Runs the net in evaluation mode, without augmentation; leaves it in the mode it was in. Empty
/// when `stop` became true on the way. Each rank takes a share of the images. Throws
/// std::invalid_argument where the net has other classes than the set.
std::optional<Evaluation> evaluate(DigitNet& net, const data::ImageSet& images,
                                   const data::InputScale& scale, const std::atomic<bool>& stop,
                                   ranks::Ranks& ranks = ranks::this_process());

}  // namespace orthobatch::train
