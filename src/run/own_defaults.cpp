#include "run/own_defaults.h"

namespace orthobatch {
namespace {

constexpr int small_side = 32;  // pixels
constexpr int64_t least_batch = 32, steps_wanted = 30;

}  // namespace

nlohmann::json own_defaults(const OwnSurvey& survey) {
  const bool small = survey.width <= small_side && survey.height <= small_side;
  TrainConfig column = paper_config(survey.grey && small ? "mnist" : "svhn", "BN");
  int64_t& batch = column.schedule.batch;
  while (batch > least_batch && survey.train_images / batch < steps_wanted) batch /= 2;
  const nlohmann::json all = to_json(column);
  nlohmann::json out = {{"blocks", all.at("blocks")}, {"schedule", all.at("schedule")}};
  for (nlohmann::json& block : out["blocks"]) block.erase("layer");
  return out;
}

}  // namespace orthobatch
