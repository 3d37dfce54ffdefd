#pragma once
// Everything a run is made from: config.json, the defaults of the paper, and the checks on both.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/augment.h"
#include "data/own_data.h"
#include "io/json.h"
#include "io/json_fields.h"

namespace orthobatch::run {

/// C(fov, stride, ·, channels): convolution, ReLU, the layer.
struct BlockConfig {
  int64_t fov = 3;
  int64_t stride = 1;
  int64_t channels = 0;
  std::string layer = "BN";  ///< a layer spec
};

/// What a convolution sees beyond the edge of its map: nothing, so that the map shrinks; or
/// ⌊(fov − 1)/2⌋ zeros, so that a stride of 1 keeps its size.
enum class Padding { valid, same };

/// How FC reads the last map: every place of it, or the average or the largest value of each
/// channel.
enum class Head { flat, average, max };

struct NetConfig {
  std::vector<BlockConfig> blocks;
  Padding padding = Padding::valid;
  Head head = Head::flat;
  /// A flat head's features are divided by places^flat_exponent: docs/experiments.md says why.
  double flat_exponent = 0.5;
  /// FC's first weights are scaled so that the logits of the first batch deviate by this.
  double initial_deviation = 0.05;
  /// Layers other than BN go into the weights of what reads them: the same up to rounding.
  bool fold = true;
  /// In training, statistics are of every so many-th place in each direction.
  int64_t sample_stride = 1;
};

constexpr int64_t largest_batch = 1'000'000'000;

/// Numbers of the training rules; the defaults are those of the paper's MNIST column, and a pace
/// for no data set in particular (paper_config has those of each).
struct ScheduleRules {
  double learning_rate = 0.125;
  /// The learning rate of S, which parametrizes the rotation W, over that of the rest of the net.
  double skew_factor = 1;
  double momentum = 0.9;
  double weight_decay = 0;
  int64_t batch = 256;

  /// Learning slows when the mean training loss of an epoch is not lower than the lowest one before
  /// it by this fraction …
  double slow_improvement = 0.1;
  /// … for this many epochs in a row.
  int64_t slow_epochs = 2;
  /// Every epoch after this one counts as slow, so that each row of a table comes to the end of the
  /// rules: the training loss of a net that memorizes its images falls by a fifth an epoch as long
  /// as it is trained. 0: none is slow for its number.
  int64_t slow_after = 0;

  /// Then, below `max_batch`, the batch doubles and the learning rate takes this factor …
  int64_t max_batch = 2048;
  double growing_factor = 0.75;
  /// … and at `max_batch` the learning rate takes this one, down to `min_learning_rate`, and the
  /// momentum becomes `final_momentum`.
  double final_factor = 0.5;
  double final_momentum = 0.9;
  double min_learning_rate = 1e-5;

  /// The running average of the layers' statistics keeps the fraction α of itself at each step:
  /// 1 − α starts at 1 − alpha_start and takes the factor alpha_decay after each epoch, until α is
  /// alpha_end.
  double alpha_start = 0.9;
  double alpha_decay = 0.95;
  double alpha_end = 0.98;
};

/// When a run ends before its last epoch. Both rules look at the test set, as the choice of the
/// best epoch does: docs/runs.md says what that means for the error.
struct StopRules {
  std::optional<double> target_error;  ///< percent: an epoch with no more than that is the last
  int64_t patience = 0;  ///< so many epochs in a row without a better one are enough; 0: no rule
  /// Where the rules begin to count: a run that they ended, and that was told to go on, has a
  /// target that it met behind it, and its patience anew.
  int64_t from = 0;

  bool any() const { return target_error || patience > 0; }
};

constexpr int most_processes = 1 << 16;

struct TrainConfig {
  std::string data;        ///< one of data_names(), or a folder of one's own
  int64_t subset = 0;      ///< only the first so many training images; 0: all
  std::string image_size;  ///< that those of a folder get, "32x32"; empty: as docs/data.md says
  data::Augmentation augment;
  NetConfig net;
  ScheduleRules schedule;
  int64_t epochs = 25;
  StopRules stop;  ///< none, unless asked for
  uint64_t seed = 1;
  int threads = 0;  ///< of the training step; 0: as many as the machine has
  int augment_threads = 1;
  int processes = 1;  ///< that train together, each with so many threads
  /// Before an evaluation the layers' running statistics are taken anew over so many training
  /// images, not augmented, with the weights of the moment; 0: as the running average left them.
  int64_t refresh_images = 5000;
  double checkpoint_minutes =
      10;  ///< between checkpoints inside an epoch; each epoch ends with one
};

/// The paper's column for a data set: nets, rules, augmentation, those of SVHN for cifar10 and
/// those of MNIST for fashion-mnist; and epochs that let the whole of
/// the rules happen. `layer` in every block. For a folder of one's own that of SVHN, without
/// augmentation, and with rules for any number of epochs.
TrainConfig paper_config(const std::string& data, const std::string& layer);

/// Settings for a user's own pictures, as config.json has them: the paper's net and rules for MNIST
/// where the images are small and grey, else those for SVHN; and batches that leave an epoch of
/// few images enough steps, at the start and when they grow.
nlohmann::json own_defaults(const data::OwnSurvey& survey);

/// A config, or the part of one that differs from the paper's, as read from JSON. `name` is what
/// messages call its source. A key that does not exist, a wrong type or a number out of range is an
/// error (std::invalid_argument) that names the key.
TrainConfig config_from_json(const nlohmann::json& json, const std::string& name);

/// All of it; config_from_json gives it back.
nlohmann::ordered_json to_json(const TrainConfig& config);

/// A member of config.json as its table has it, those of objects inside with a dot:
/// "schedule.learning_rate".
struct SettingInfo {
  std::string key;
  nlohmann::json value;  ///< without being given: of the paper's net for MNIST
  io::Range range;
  bool integer = false;
};
const std::vector<SettingInfo>& all_settings();
/// Throws std::out_of_range where there is none.
const SettingInfo& setting_info(const std::string& key);

/// What decides a run's numbers; not how long it goes on, nor with how many hands.
nlohmann::ordered_json deciding_settings(const TrainConfig& config);
/// Whether a member of config.json is among them.
bool decides_numbers(const std::string& key);

/// Throws std::invalid_argument or SpecError where something is out of range. Specs become
/// canonical.
void check_config(TrainConfig& config);
void check_rules(const ScheduleRules& rules);

/// Height and width of the map that each block makes of an image, the image's own first. Throws
/// std::invalid_argument where a block's field of view does not fit the map it gets, or its own map
/// is too large (io/bounds.h).
std::vector<std::pair<int64_t, int64_t>> map_sizes(const NetConfig& net, int64_t height,
                                                   int64_t width);

/// The zeros that a block's convolution adds on each side.
int64_t padding_of(const NetConfig& net, const BlockConfig& block);

/// Names as in configs and on the command line; the readers throw std::invalid_argument.
std::string to_string(Head head);
std::string to_string(Padding padding);
Head parse_head(const std::string& text, const std::string& where);
Padding parse_padding(const std::string& text, const std::string& where);

/// The layer specs, once where all blocks have the same: "ZCA(1e-5)", "BN | BN | ZCA(1e-5)".
std::string layers_text(const TrainConfig& config);

}  // namespace orthobatch::run
