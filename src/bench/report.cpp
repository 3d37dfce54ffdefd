#include "bench/report.h"

#include <sys/utsname.h>
#include <torch/version.h>

#include <cstdlib>
#include <thread>

#include "base/processor.h"
#include "core/linalg.h"
#include "kernels/loops.h"
#include "orthobatch/version.h"

namespace orthobatch::bench {
namespace {

using Json = nlohmann::ordered_json;

Json machine() {
  utsname system{};
  uname(&system);
  return {{"system", std::string(system.sysname) + " " + system.release},
          {"architecture", system.machine},
          {"cpu", processor_name()},
          {"blas", to_string(blas_core())},
          {"loops", kernels::loops_name()},
          {"cores", std::thread::hardware_concurrency()}};
}

Json versions() {
  return {{"orthobatch", ORTHOBATCH_VERSION},
          {"torch", TORCH_VERSION},
          {"compiler", __VERSION__},
          {"products", core::linalg::products_library()}};
}

Json times_json(const Times& times) {
  return {{"median_ms", times.median()}, {"best_ms", times.best()}, {"each_ms", times.each}};
}

Json pass_json(const PassTimes& pass) {
  return {{"forward", times_json(pass.forward)},
          {"backward", times_json(pass.backward)},
          {"both", times_json(pass.both)}};
}

/// a/b from medians and from bests.
Json ratio_json(const Times& a, const Times& b) {
  return {{"median", a.median() / b.median()}, {"best", a.best() / b.best()}};
}

Json shape_json(const Shape& s) { return {s.batch, s.channels, s.height, s.width}; }

Json layer_row_json(const LayerTimes& row, const LayerResult& result, const PassTimes& torch_bn) {
  Json out = {{"layer", row.candidate.name()}, {"all_threads", pass_json(row.all)}};
  if (!row.one.both.each.empty()) {
    out["one_thread"] = pass_json(row.one);
    out["speedup"] = ratio_json(row.one.both, row.all.both);
  }
  if (!row.algebra.each.empty()) out["small_matrices"] = times_json(row.algebra);
  out["ratio_to_torch_batchnorm"] = {{"forward", ratio_json(row.all.forward, torch_bn.forward)},
                                     {"backward", ratio_json(row.all.backward, torch_bn.backward)},
                                     {"both", ratio_json(row.all.both, torch_bn.both)}};
  if (row.candidate.has_products()) {
    const auto median = against_product(row.all.both.median(), result.product.median());
    const auto best = against_product(row.all.both.best(), result.product.best());
    out["multiple_of_products"] = {{"median", median.multiple}, {"best", best.multiple}};
    out["fraction_of_gemm_rate"] = {{"median", median.fraction}, {"best", best.fraction}};
  }
  return out;
}

Json layers_json(const std::vector<LayerResult>& results) {
  Json out = Json::array();
  for (const LayerResult& result : results) {
    Json rows = Json::array();
    const LayerTimes* torch_bn = result.find(Candidate::Kind::torch_bn);
    for (const LayerTimes& row : result.rows)
      rows.push_back(layer_row_json(row, result, torch_bn->all));
    out.push_back({{"shape", shape_json(result.shape)},
                   {"layout", name_of(result.layout)},
                   {"gemm", times_json(result.product)},
                   {"gemm_gflops", result.product_gflops()},
                   {"layers", rows}});
  }
  return out;
}

Json memory_json(const std::vector<MemoryResult>& results) {
  Json out = Json::array();
  for (const MemoryResult& row : results)
    out.push_back({{"shape", shape_json(row.shape)},
                   {"layout", name_of(row.layout)},
                   {"layer", row.candidate.name()},
                   {"extra_bytes", row.extra_bytes}});
  return out;
}

Json step_json(const std::vector<StepResult>& results) {
  Json out = Json::array();
  for (const StepResult& result : results) {
    Json rows = Json::array();
    for (const StepTimes& row : result.rows)
      rows.push_back({{"net", row.name},
                      {"step", times_json(row.times)},
                      {"images_per_second", row.images_per_second},
                      {"ratio_to_torch", ratio_json(row.times, result.rows.front().times)},
                      {"peak_bytes", row.peak_bytes}});
    out.push_back({{"data", result.data}, {"batch", result.batch}, {"nets", rows}});
  }
  return out;
}

Json inference_json(const std::vector<InferenceResult>& results) {
  Json out = Json::array();
  for (const InferenceResult& result : results) {
    Json rows = Json::array();
    for (const InferenceResult::Row& row : result.rows)
      rows.push_back({{"net", row.name},
                      {"pass", times_json(row.times)},
                      {"ratio_to_no_layers", ratio_json(row.times, result.rows.front().times)}});
    out.push_back({{"data", result.data}, {"batch", result.batch}, {"nets", rows}});
  }
  return out;
}

Json scaling_json(const std::vector<ScalingSeries>& all) {
  Json out = Json::array();
  for (const ScalingSeries& series : all) {
    Json points = Json::array();
    for (size_t i = 0; i < series.shapes.size(); ++i)
      points.push_back({{"shape", shape_json(series.shapes[i])},
                        {"channels", series.shapes[i].channels},
                        {"samples", series.shapes[i].samples()},
                        {"times", pass_json(series.times[i])}});
    out.push_back(
        {{"over", series.over == ScalingSeries::Over::channels ? "channels" : "samples"},
         {"exponent",
          {{"median", series.exponent(&Times::median)}, {"best", series.exponent(&Times::best)}}},
         {"points", points}});
  }
  return out;
}

Json bars_json(const std::vector<Bar>& bars) {
  Json out = Json::array();
  for (const Bar& bar : bars) {
    Json row = {{"what", bar.what},
                {bar.at_most ? "at_most" : "at_least", bar.limit},
                {"verdict", name_of(bar.verdict())},
                {"places_measured", bar.measured},
                {"places_needed", bar.needed}};
    if (!bar.unit.empty()) row["unit"] = bar.unit;
    if (bar.median) row["measured"] = *bar.median;
    if (bar.best) row["measured_by_best"] = *bar.best;
    if (!bar.where.empty()) row["where"] = bar.where;
    out.push_back(row);
  }
  return out;
}

}  // namespace

double load_average() {
  double load = 0;
  getloadavg(&load, 1);
  return load;
}

nlohmann::ordered_json to_json(const Results& results, const Session& session, double load,
                               const std::vector<Bar>& bars) {
  return {{"format", "orthobatch bench 1"},
          {"machine", machine()},
          {"versions", versions()},
          {"load_before", load},
          {"threads", session.threads},
          {"repeats", session.repeats},
          {"layers", layers_json(results.layers)},
          {"memory", memory_json(results.memory)},
          {"step", step_json(results.step)},
          {"inference", inference_json(results.inference)},
          {"scaling", scaling_json(results.scaling)},
          {"bars", bars_json(bars)}};
}

}  // namespace orthobatch::bench
