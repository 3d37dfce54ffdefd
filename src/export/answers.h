#pragma once
// Whether a model that was written answers as the run's own net does.

#include <functional>

#include "data/images.h"
#include "export/plain_net.h"

namespace orthobatch::exporter {

using Model = std::function<torch::Tensor(const torch::Tensor& images)>;

struct Agreement {
  int64_t images = 0;
  int64_t own_wrong = 0, model_wrong = 0;  ///< answers other than the label
  int64_t differ = 0;                      ///< answers other than the net's
  double largest = 0;                      ///< |logit of the model − that of the net|
  double scale = 0;                        ///< the largest |logit|

  double own_error_percent() const { return percent(own_wrong); }
  double model_error_percent() const { return percent(model_wrong); }
  /// Within rounding: of float sums in another order and of folded weights.
  bool holds() const;

 private:
  double percent(int64_t wrong) const {
    return images > 0 ? 100.0 * static_cast<double>(wrong) / static_cast<double>(images) : 0;
  }
};

/// Over all images of a set.
Agreement compare(const train::Checkpoint& checkpoint, const PlainNet& net, const Model& model,
                  const data::ImageSet& images);

/// Noise where there are no data: bytes of any value, without labels that mean anything.
data::ImageSet noise_images(const data::ImageShape& shape);

}  // namespace orthobatch::exporter
