#pragma once
// The inference section: what is left of the layers' cost in a net that fold made, beside the same
// net without any.

#include <string>
#include <vector>

#include "bench/timing.h"

namespace orthobatch::bench {

struct InferenceResult {
  struct Row {
    std::string name;
    Times times;  ///< of one pass
  };

  std::string data;  ///< whose net: mnist or svhn
  int64_t batch;
  std::vector<Row> rows;  ///< in the order of the names below

  const Times* find(const std::string& name) const;
};

constexpr const char* bare_net = "no layers";
constexpr const char* plain_net_name = "ours, ZCA, fold(net)";
constexpr const char* evaluating_net = "ours, ZCA, in evaluation";

/// The paper's net with ZCA(1e-5,1e12) in every block, channels last, without gradients.
InferenceResult measure_inference(const std::string& data, int64_t batch, const Session& session);

}  // namespace orthobatch::bench
