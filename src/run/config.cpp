#include "run/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "data/catalogue.h"
#include "data/image_size.h"
#include "io/json_fields.h"
#include "orthobatch/spec.h"
#include "run/choices.h"

namespace orthobatch {
namespace {

using nlohmann::json;
using Fields = JsonFields;

BlockConfig block_from_json(const json& object, const std::string& where, BlockConfig block) {
  Fields fields(object, where);
  fields.integer("fov", block.fov);
  fields.integer("stride", block.stride);
  fields.integer("channels", block.channels);
  fields.text("layer", block.layer);
  fields.refuse_others();
  return block;
}

/// One table for reading and writing: each number of the rules and its name in JSON.
template <typename Rules, typename Number, typename Integer>
void for_each_rule(Rules& r, const Number& number, const Integer& integer) {
  number("learning_rate", r.learning_rate);
  number("momentum", r.momentum);
  number("weight_decay", r.weight_decay);
  integer("batch", r.batch);
  number("slow_improvement", r.slow_improvement);
  integer("slow_epochs", r.slow_epochs);
  integer("max_batch", r.max_batch);
  number("growing_factor", r.growing_factor);
  number("final_factor", r.final_factor);
  number("final_momentum", r.final_momentum);
  number("min_learning_rate", r.min_learning_rate);
  number("alpha_start", r.alpha_start);
  number("alpha_decay", r.alpha_decay);
  number("alpha_end", r.alpha_end);
}

/// A null takes a rule back, as --set stop.patience=null does.
StopRules stop_from_json(json object, const std::string& where) {
  for (auto it = object.begin(); it != object.end();) it = it->is_null() ? object.erase(it) : ++it;
  Fields fields(object, where);
  StopRules rules;
  double target = 0;
  fields.number("target_error", target);
  if (object.contains("target_error")) rules.target_error = target;
  fields.integer("patience", rules.patience);
  fields.integer("from", rules.from);
  fields.refuse_others();
  return rules;
}

/// What is asked for, and no more: a run without rules has none in its config.
nlohmann::ordered_json stop_json(const StopRules& rules) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (rules.target_error) out["target_error"] = *rules.target_error;
  if (rules.patience > 0) out["patience"] = rules.patience;
  if (rules.from > 0) out["from"] = rules.from;
  return out;
}

const Names<Head> heads = {{Head::flat, "flat"}, {Head::average, "average"}, {Head::max, "max"}};
const Names<Padding> paddings = {{Padding::valid, "valid"}, {Padding::same, "same"}};

void require(bool holds, const std::string& name, const std::string& expected, double found) {
  if (!holds)
    throw std::invalid_argument(
        fmt::format("config: {}: expected {}, found {}", name, expected, number_text(found)));
}

}  // namespace

TrainConfig paper_config(const std::string& data, const std::string& layer) {
  require_data_name(data);
  const bool own = is_own_data(data), svhn = own || data.rfind("svhn", 0) == 0;
  TrainConfig config;
  config.data = data;
  config.net.blocks = {{3, 1, svhn ? 32 : 16, layer}, {4, 2, 64, layer}, {3, 1, 128, layer}};
  if (svhn) {
    config.augment.zoom_in = own ? 0 : 2;
    config.schedule.slow_epochs = 1;
    config.schedule.max_batch = 1024;
    config.schedule.growing_factor = 1;
    config.schedule.final_momentum = 0.5;
  } else {
    config.augment = {4, 4, 20};
  }
  return config;
}

TrainConfig config_from_json(const json& object, const std::string& name) {
  Fields fields(object, name);
  std::string data = "mnist", layer = "BN";
  fields.text("data", data);
  fields.text("layer", layer);
  TrainConfig config = paper_config(data, layer);
  std::string head = to_string(config.net.head), padding = to_string(config.net.padding);
  fields.text("head", head);
  fields.text("padding", padding);
  config.net.head = parse_head(head, fields.path("head"));
  config.net.padding = parse_padding(padding, fields.path("padding"));
  fields.number("flat_exponent", config.net.flat_exponent);
  fields.number("initial_deviation", config.net.initial_deviation);
  fields.flag("fold", config.net.fold);
  fields.integer("sample_stride", config.net.sample_stride);
  fields.integer("subset", config.subset);
  fields.text("image_size", config.image_size);
  fields.integer("epochs", config.epochs);
  fields.integer("seed", config.seed);
  fields.integer("threads", config.threads);
  fields.integer("augment_threads", config.augment_threads);
  fields.integer("processes", config.processes);
  fields.integer("refresh_images", config.refresh_images);
  fields.number("checkpoint_minutes", config.checkpoint_minutes);
  if (const json* stop = fields.object("stop"))
    config.stop = stop_from_json(*stop, fields.path("stop"));
  if (const json* augment = fields.object("augment")) {
    Fields inner(*augment, fields.path("augment"));
    inner.number("zoom_out", config.augment.zoom_out);
    inner.number("zoom_in", config.augment.zoom_in);
    inner.number("rotation", config.augment.rotation);
    inner.refuse_others();
  }
  if (const json* schedule = fields.object("schedule")) {
    Fields inner(*schedule, fields.path("schedule"));
    for_each_rule(
        config.schedule, [&](const char* key, double& x) { inner.number(key, x); },
        [&](const char* key, int64_t& n) { inner.integer(key, n); });
    inner.refuse_others();
  }
  if (const json* blocks = fields.array("blocks")) {
    config.net.blocks.clear();
    for (size_t i = 0; i < blocks->size(); ++i)
      config.net.blocks.push_back(block_from_json(
          (*blocks)[i], fmt::format("{}: blocks[{}]", name, i), BlockConfig{3, 1, 0, layer}));
    const auto has_layer = [](const json& block) { return block.contains("layer"); };
    if (object.contains("layer") && std::all_of(blocks->begin(), blocks->end(), has_layer))
      fields.fail("layer: expected a block that takes it, as each has a layer of its own", layer);
  }
  for (const char* key : {"version", "found", "changed"}) fields.ignore(key);
  fields.refuse_others();
  return config;
}

nlohmann::ordered_json to_json(const TrainConfig& config) {
  nlohmann::ordered_json out;
  out["data"] = config.data;
  out["subset"] = config.subset;
  if (!config.image_size.empty()) out["image_size"] = config.image_size;
  out["epochs"] = config.epochs;
  if (config.stop.any()) out["stop"] = stop_json(config.stop);
  out["seed"] = config.seed;
  out["threads"] = config.threads;
  out["augment_threads"] = config.augment_threads;
  out["processes"] = config.processes;
  out["refresh_images"] = config.refresh_images;
  out["checkpoint_minutes"] = config.checkpoint_minutes;
  out["augment"] = {{"zoom_out", config.augment.zoom_out},
                    {"zoom_in", config.augment.zoom_in},
                    {"rotation", config.augment.rotation}};
  out["head"] = to_string(config.net.head);
  out["padding"] = to_string(config.net.padding);
  out["flat_exponent"] = config.net.flat_exponent;
  out["initial_deviation"] = config.net.initial_deviation;
  out["fold"] = config.net.fold;
  out["sample_stride"] = config.net.sample_stride;
  for (const BlockConfig& b : config.net.blocks)
    out["blocks"].push_back(nlohmann::ordered_json{
        {"fov", b.fov}, {"stride", b.stride}, {"channels", b.channels}, {"layer", b.layer}});
  const auto put = [&](const char* key, auto value) { out["schedule"][key] = value; };
  for_each_rule(config.schedule, put, put);
  return out;
}

bool decides_numbers(const std::string& key) {
  return key != "epochs" && key != "stop" && key != "threads" && key != "augment_threads" &&
         key != "processes" && key != "checkpoint_minutes" && key != "fold";
}

nlohmann::ordered_json deciding_settings(const TrainConfig& config) {
  const nlohmann::ordered_json all = to_json(config);
  nlohmann::ordered_json out;
  for (const auto& [key, value] : all.items())
    if (decides_numbers(key)) out[key] = value;
  return out;
}

void check_config(TrainConfig& config) {
  require_data_name(config.data);
  require(config.epochs >= 1 && config.epochs <= 100000, "epochs", "1 to 100000",
          static_cast<double>(config.epochs));
  require(config.threads >= 0 && config.threads <= 1024, "threads", "0 (all) to 1024",
          config.threads);
  require(config.augment_threads >= 1 && config.augment_threads <= 256, "augment_threads",
          "1 to 256", config.augment_threads);
  require(config.processes >= 1 && config.processes <= most_processes, "processes",
          fmt::format("1 to {}", most_processes), config.processes);
  require(config.schedule.batch >= config.processes, "schedule: batch",
          fmt::format("an image for each of {} processes", config.processes),
          static_cast<double>(config.schedule.batch));
  require(config.checkpoint_minutes > 0, "checkpoint_minutes", "a number above 0",
          config.checkpoint_minutes);
  require(config.refresh_images == 0 || config.refresh_images >= 2, "refresh_images",
          "0 (none), or 2 or more", static_cast<double>(config.refresh_images));
  if (!config.image_size.empty()) {
    parse_image_size(config.image_size, "config: image_size");
    if (!is_own_data(config.data))
      throw std::invalid_argument(fmt::format(
          "config: image_size: expected only with a folder of images, found with {}", config.data));
  }
  require(config.subset >= 0, "subset", "0 or more", static_cast<double>(config.subset));
  const auto pixels = [](const char* name, double x) {
    require(x >= 0 && x <= 14, std::string("augment: ") + name, "0 to 14 pixels", x);
  };
  pixels("zoom_out", config.augment.zoom_out);
  pixels("zoom_in", config.augment.zoom_in);
  require(config.augment.rotation >= 0 && config.augment.rotation <= 180, "augment: rotation",
          "0 to 180 degrees", config.augment.rotation);
  require(config.net.flat_exponent >= 0 && config.net.flat_exponent <= 1, "flat_exponent", "0 to 1",
          config.net.flat_exponent);
  require(config.net.initial_deviation > 0 && config.net.initial_deviation <= 100,
          "initial_deviation", "a number above 0, up to 100", config.net.initial_deviation);
  require(config.net.sample_stride >= 1 && config.net.sample_stride <= 31, "sample_stride",
          "1 to 31", static_cast<double>(config.net.sample_stride));
  std::vector<BlockConfig>& blocks = config.net.blocks;
  require(!blocks.empty() && blocks.size() <= 64, "blocks", "1 to 64 blocks",
          static_cast<double>(blocks.size()));
  for (size_t i = 0; i < blocks.size(); ++i) {
    BlockConfig& block = blocks[i];
    const std::string where = fmt::format("blocks[{}]: ", i);
    require(block.fov >= 1 && block.fov <= 31, where + "fov", "1 to 31",
            static_cast<double>(block.fov));
    require(block.stride >= 1 && block.stride <= block.fov, where + "stride", "1 to fov",
            static_cast<double>(block.stride));
    require(block.channels >= 1 && block.channels <= 65536, where + "channels", "1 to 65536",
            static_cast<double>(block.channels));
    block.layer = to_string(parse(block.layer));
  }
  check_rules(config.schedule);
  check_rules(config.stop);
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
  }
  return sizes;
}

std::string to_string(Head head) { return name_of(head, heads); }
std::string to_string(Padding padding) { return name_of(padding, paddings); }
Head parse_head(const std::string& text, const std::string& where) {
  return choice_of(text, heads, where);
}
Padding parse_padding(const std::string& text, const std::string& where) {
  return choice_of(text, paddings, where);
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

}  // namespace orthobatch
