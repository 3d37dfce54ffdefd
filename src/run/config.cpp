#include "run/config.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "data/catalogue.h"
#include "data/image_size.h"
#include "io/bounds.h"
#include "io/json_fields.h"
#include "orthobatch/spec.h"

namespace orthobatch::run {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const io::Names<Head> heads = {
    {Head::flat, "flat"}, {Head::average, "average"}, {Head::max, "max"}};
const io::Names<Padding> paddings = {{Padding::valid, "valid"}, {Padding::same, "same"}};

constexpr int64_t most_epochs = 100000;
constexpr double largest_rate = 1e30;  // a step of training is in float

// The tables of config.json: each member, its name and its range.

template <typename Rules, typename Fields>
void schedule_members(Rules& r, Fields& f) {
  const io::Range rate = {0, largest_rate}, below_one = {0, 1, io::Range::below_high},
                  factor = {0, 1, io::Range::above_low}, batch = {2, largest_batch};
  f.number("learning_rate", r.learning_rate, {0, largest_rate, io::Range::above_low});
  f.number("skew_factor", r.skew_factor, {0, 100});
  f.number("momentum", r.momentum, below_one);
  f.number("weight_decay", r.weight_decay, rate);
  f.integer("batch", r.batch, batch);
  f.number("slow_improvement", r.slow_improvement, below_one);
  f.integer("slow_epochs", r.slow_epochs, {1});
  f.integer("slow_after", r.slow_after, {0, most_epochs});
  f.integer("max_batch", r.max_batch, batch);
  f.number("growing_factor", r.growing_factor, factor);
  f.number("final_factor", r.final_factor, factor);
  f.number("final_momentum", r.final_momentum, below_one);
  f.number("min_learning_rate", r.min_learning_rate, rate);
  f.number("alpha_start", r.alpha_start, below_one);
  f.number("alpha_decay", r.alpha_decay, factor);
  f.number("alpha_end", r.alpha_end, below_one);
}

/// What decides a run's numbers. A block that does not name its layer has `layer`.
template <typename Config, typename Fields>
void deciding_members(Config& c, const std::string& layer, Fields& f) {
  f.text("data", c.data);
  f.integer("subset", c.subset);
  f.text("image_size", c.image_size);
  f.integer("seed", c.seed);
  f.integer("refresh_images", c.refresh_images);
  f.group("augment", [&](auto& g) {
    g.number("zoom_out", c.augment.zoom_out, {0, 14});  // pixels
    g.number("zoom_in", c.augment.zoom_in, {0, 14});
    g.number("rotation", c.augment.rotation, {0, 180});  // degrees
    g.flag("mirror", c.augment.mirror);
  });
  f.choice("head", c.net.head, heads);
  f.choice("padding", c.net.padding, paddings);
  f.number("flat_exponent", c.net.flat_exponent, {0, 1});
  f.number("initial_deviation", c.net.initial_deviation, {0, 100, io::Range::above_low});
  f.integer("sample_stride", c.net.sample_stride, {1, 31});
  f.list("blocks", c.net.blocks, BlockConfig{3, 1, 0, layer}, [](auto& block, auto& g) {
    g.integer("fov", block.fov, {1, 31});
    g.integer("stride", block.stride, {1, 31});
    g.integer("channels", block.channels, {1, 65536});
    g.text("layer", block.layer);
  });
  f.group("schedule", [&](auto& g) { schedule_members(c.schedule, g); });
}

/// How long it goes on, and with how many hands.
template <typename Config, typename Fields>
void other_members(Config& c, Fields& f) {
  f.integer("epochs", c.epochs, {1, most_epochs});
  f.group("stop", [&](auto& g) {
    g.nullable("target_error", c.stop.target_error, {0, 100});
    g.integer("patience", c.stop.patience, {0, most_epochs});
    g.integer("from", c.stop.from, {0, most_epochs});
  });
  f.integer("threads", c.threads, {0, 1024});
  f.integer("augment_threads", c.augment_threads, {1, 256});
  f.integer("processes", c.processes, {1, most_processes});
  f.number("checkpoint_minutes", c.checkpoint_minutes, {0, 1e9, io::Range::above_low});
  f.flag("fold", c.net.fold);
}

/// Lists the members that a table names.
class SettingList {
 public:
  static constexpr bool reads = false;
  std::vector<SettingInfo> out;

  explicit SettingList(std::string prefix = "") : prefix_(std::move(prefix)) {}

  void number(const char* key, double value, const io::Range& range = {}) {
    add(key, value, range);
  }
  void text(const char* key, const std::string& value) { add(key, value); }
  void flag(const char* key, bool value) { add(key, value); }
  template <typename Integer>
  void integer(const char* key, Integer value, const io::Range& range = {}) {
    add(key, value, range);
    out.back().integer = true;
  }
  template <typename Choice>
  void choice(const char* key, Choice value, const io::Names<Choice>& names) {
    add(key, io::name_of(value, names));
  }
  void nullable(const char* key, const std::optional<double>&, const io::Range& range) {
    add(key, nullptr, range);
  }
  template <typename Members>
  void group(const char* key, const Members& members) {
    SettingList inner(prefix_ + key + ".");
    members(inner);
    out.insert(out.end(), inner.out.begin(), inner.out.end());
  }
  template <typename T, typename Members>
  void list(const char* key, const std::vector<T>&, const T&, const Members&) {
    add(key, json::array());
  }

 private:
  void add(const char* key, const json& value, const io::Range& range = {}) {
    out.push_back({prefix_ + key, value, range});
  }

  std::string prefix_;
};

void require(bool holds, const std::string& name, const std::string& expected, double found) {
  if (!holds)
    throw std::invalid_argument(
        fmt::format("config: {}: expected {}, found {}", name, expected, base::number_text(found)));
}

/// What hangs on more than one member.
void check_together(const TrainConfig& c) {
  require(c.schedule.batch >= c.processes, "schedule: batch",
          fmt::format("an image for each of {} processes", c.processes),
          static_cast<double>(c.schedule.batch));
  require(c.refresh_images != 1, "refresh_images", "0 (none), or 2 or more", 1);
  if (!c.image_size.empty()) {
    data::parse_image_size(c.image_size, "config: image_size");
    if (!data::is_own_data(c.data))
      throw std::invalid_argument(fmt::format(
          "config: image_size: expected only with a folder of images, found with {}", c.data));
  }
  const size_t blocks = c.net.blocks.size();
  require(blocks >= 1 && blocks <= 64, "blocks", "1 to 64 blocks", static_cast<double>(blocks));
  for (size_t i = 0; i < blocks; ++i)
    require(c.net.blocks[i].stride <= c.net.blocks[i].fov, fmt::format("blocks[{}]: stride", i),
            "1 to fov", static_cast<double>(c.net.blocks[i].stride));
}

/// When learning counts as slow, and the epochs in which the learning rate then falls four times.
struct Pace {
  double slow_improvement;
  int64_t slow_epochs, slow_after, epochs;
};

void set_pace(TrainConfig& config, const Pace& pace) {
  config.schedule.slow_improvement = pace.slow_improvement;
  config.schedule.slow_epochs = pace.slow_epochs;
  config.schedule.slow_after = pace.slow_after;
  config.epochs = pace.epochs;
}

/// One of the paper's two columns, that of SVHN or that of MNIST: net and rules.
TrainConfig column_of(bool svhn, const std::string& layer) {
  TrainConfig config;
  config.net.blocks = {{3, 1, svhn ? 32 : 16, layer}, {4, 2, 64, layer}, {3, 1, 128, layer}};
  if (svhn) {
    config.schedule.slow_epochs = 1;
    config.schedule.max_batch = 1024;
    config.schedule.growing_factor = 1;
    config.schedule.final_momentum = 0.5;
  }
  return config;
}

}  // namespace

TrainConfig paper_config(const std::string& data, const std::string& layer) {
  data::require_data_name(data);
  const bool own = data::is_own_data(data), cifar = data == "cifar10";
  const bool svhn = data.rfind("svhn", 0) == 0 || cifar, fashion = data == "fashion-mnist";
  TrainConfig config = column_of(own || svhn, layer);
  config.data = data;
  if (!own)
    config.augment =
        svhn ? data::Augmentation{0, 2, 0, cifar} : data::Augmentation{4, 4, fashion ? 0.0 : 20.0};
  // docs/experiments.md says what these were chosen by.
  if (svhn) set_pace(config, {0.1, 2, 3, 16});
  if (fashion) set_pace(config, {0.1, 2, 3, 18});
  if (data == "mnist") set_pace(config, {0.05, 5, 10, 50});
  return config;
}

nlohmann::json own_defaults(const data::OwnSurvey& survey) {
  constexpr int small_side = 32;  // pixels
  constexpr int64_t least_batch = 32, steps_wanted = 30;
  const bool small = survey.width <= small_side && survey.height <= small_side;
  TrainConfig column = column_of(!(survey.grey && small), "BN");
  ScheduleRules& rules = column.schedule;
  const auto steps = [&](int64_t batch) { return survey.train_images / batch; };
  while (rules.batch > least_batch && steps(rules.batch) < steps_wanted) rules.batch /= 2;
  while (rules.max_batch > rules.batch && steps(rules.max_batch) < steps_wanted)
    rules.max_batch /= 2;
  // A few steps say little about how fast the loss falls: the rules act on no fewer than these.
  const int64_t made = std::max<int64_t>(1, steps(rules.batch));
  rules.slow_epochs = std::max(rules.slow_epochs, (steps_wanted + made - 1) / made);
  const json all = to_json(column);
  json out = {{"blocks", all.at("blocks")}, {"schedule", all.at("schedule")}};
  for (json& block : out["blocks"]) block.erase("layer");
  return out;
}

TrainConfig config_from_json(const json& object, const std::string& name) {
  io::JsonFields fields(object, name);
  std::string data = "mnist", layer = "BN";
  fields.text("data", data);
  fields.text("layer", layer);
  TrainConfig config = paper_config(data, layer);
  deciding_members(config, layer, fields);
  other_members(config, fields);
  for (const char* key : {"version", "found", "changed", "origin"}) fields.ignore(key);
  fields.refuse_others();
  if (const json* blocks = fields.array("blocks")) {
    const auto has_layer = [](const json& block) { return block.contains("layer"); };
    if (object.contains("layer") && std::all_of(blocks->begin(), blocks->end(), has_layer))
      fields.fail("layer: expected a block that takes it, as each has a layer of its own", layer);
  }
  return config;
}

ordered_json to_json(const TrainConfig& config) {
  io::JsonWriter writer;
  deciding_members(config, "", writer);
  other_members(config, writer);
  return writer.out;
}

const std::vector<SettingInfo>& all_settings() {
  static const std::vector<SettingInfo> all = [] {
    const TrainConfig config = paper_config("mnist", "BN");
    SettingList list;
    deciding_members(config, "", list);
    other_members(config, list);
    return list.out;
  }();
  return all;
}

const SettingInfo& setting_info(const std::string& key) {
  for (const SettingInfo& setting : all_settings())
    if (setting.key == key) return setting;
  throw std::out_of_range("no setting " + key);
}

ordered_json deciding_settings(const TrainConfig& config) {
  io::JsonWriter writer;
  deciding_members(config, "", writer);
  return writer.out;
}

bool decides_numbers(const std::string& key) {
  io::JsonWriter others;
  const TrainConfig any;
  other_members(any, others);
  return !others.out.contains(key);
}

void check_config(TrainConfig& config) {
  config_from_json(to_json(config), "config");
  check_together(config);
  check_rules(config.schedule);
  for (BlockConfig& block : config.net.blocks) block.layer = to_string(parse(block.layer));
}

void check_rules(const ScheduleRules& rules) {
  io::JsonWriter writer;
  schedule_members(rules, writer);
  const json object = writer.out;
  ScheduleRules read;
  io::JsonFields fields(object, "schedule");
  schedule_members(read, fields);
  require(rules.alpha_end >= rules.alpha_start, "schedule: alpha_end", "alpha_start or more",
          rules.alpha_end);
}

int64_t padding_of(const NetConfig& net, const BlockConfig& block) {
  // For even fov at stride 2, as for odd fov at stride 1, the size is then divided by the stride.
  return net.padding == Padding::same ? (block.fov - 1) / 2 : 0;
}

std::vector<std::pair<int64_t, int64_t>> map_sizes(const NetConfig& net, int64_t height,
                                                   int64_t width) {
  std::vector<std::pair<int64_t, int64_t>> sizes = {{height, width}};
  for (size_t i = 0; i < net.blocks.size(); ++i) {
    const BlockConfig& block = net.blocks[i];
    const auto [h, w] = sizes.back();
    const int64_t room = std::min(h, w) + 2 * padding_of(net, block);
    if (room < block.fov)
      throw std::invalid_argument(
          fmt::format("config: blocks[{}]: fov: expected at most {}, as its map has {}×{} places "
                      "(padding {}), found {}",
                      i, room, h, w, to_string(net.padding), block.fov));
    const auto out = [&](int64_t side) {
      return (side + 2 * padding_of(net, block) - block.fov) / block.stride + 1;
    };
    sizes.emplace_back(out(h), out(w));
    const double bytes = 4.0 * static_cast<double>(sizes.back().first) *
                         static_cast<double>(sizes.back().second * block.channels);
    if (bytes > io::largest_map)
      throw std::invalid_argument(
          fmt::format("config: blocks[{}]: expected a map of at most {:.0f} MiB an image, found "
                      "{:.0f} MiB: {}×{} places, {} channels",
                      i, io::largest_map / (1 << 20), bytes / (1 << 20), sizes.back().first,
                      sizes.back().second, block.channels));
  }
  return sizes;
}

std::string to_string(Head head) { return io::name_of(head, heads); }
std::string to_string(Padding padding) { return io::name_of(padding, paddings); }
Head parse_head(const std::string& text, const std::string& where) {
  return io::choice_of(text, heads, where);
}
Padding parse_padding(const std::string& text, const std::string& where) {
  return io::choice_of(text, paddings, where);
}

std::string layers_text(const TrainConfig& config) {
  const std::vector<BlockConfig>& blocks = config.net.blocks;
  std::string all;
  bool same = true;
  for (const BlockConfig& block : blocks) {
    all += (all.empty() ? "" : " | ") + block.layer;
    same = same && block.layer == blocks.front().layer;
  }
  return same ? blocks.front().layer : all;
}

}  // namespace orthobatch::run
