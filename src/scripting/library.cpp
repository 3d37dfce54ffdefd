// What Python and scripts ask for that is no layer: specs, methods, checks, diagnostics; operators of
// no tensors, or of no graph's interest.

#include <torch/library.h>

#include <limits>
#include <map>

#include "check/gradient_check.h"
#include "core/cayley.h"
#include "core/registry.h"
#include "ops/layer.h"
#include "orthobatch/diagnostics.h"
#include "orthobatch/version.h"

namespace orthobatch::scripting {
namespace {

std::string text(c10::string_view s) { return {s.data(), s.size()}; }

/// The canonical spec, with that ε where one is given, and the ε that it has (0: none).
std::tuple<std::string, double> with_eps(c10::string_view spec, c10::optional<double> eps) {
  const LayerSpec parsed = ops::spec_of(spec, eps);
  return {to_string(parsed), parsed.value("eps")};
}

bool same_state(c10::string_view a, c10::string_view b) {
  return ops::same_state(ops::spec_of(a), ops::spec_of(b));
}

/// scale, rotation, per channel, scale inside, group size
std::tuple<bool, bool, bool, bool, int64_t> traits(c10::string_view spec) {
  const LayerSpec parsed = ops::spec_of(spec);
  const core::MethodInfo& info = core::find_method(parsed.method());
  return {parsed.has_scale(), parsed.has_rotation(), info.per_channel, info.scale_inside,
          parsed.group_size()};
}

int64_t skew_size(int64_t channels) {
  TORCH_CHECK_VALUE(channels >= 0 && channels <= ops::max_features, "expected 0 to ",
                    ops::max_features, " channels, got ", channels);
  return core::skew_size(channels);
}

/// A method in each element: name, formula, description, paper.
std::vector<std::string> method_texts() {
  std::vector<std::string> out;
  for (const MethodDescription& m : methods())
    for (const std::string& part : {m.name, m.formula, m.description, m.paper}) out.push_back(part);
  return out;
}

/// name, range, meaning of each argument of a method; the defaults beside them.
std::tuple<std::vector<std::string>, std::vector<double>> method_arguments(c10::string_view name) {
  for (const MethodDescription& m : methods()) {
    if (m.name != text(name)) continue;
    std::tuple<std::vector<std::string>, std::vector<double>> out;
    for (const ArgumentDescription& a : m.arguments) {
      for (const std::string& part : {a.name, a.range, a.meaning}) std::get<0>(out).push_back(part);
      std::get<1>(out).push_back(a.default_value);
    }
    return out;
  }
  TORCH_CHECK(false, "no method is named '", text(name), "'");
}

/// `stop`: a bool in memory; the check ends with an error once another thread makes it true.
/// of, verdict; error, paper's error (NaN where there is none), resolution; reasons.
std::tuple<std::vector<std::string>, std::vector<double>, std::vector<std::string>> check(
    c10::string_view spec, c10::string_view spectrum, int64_t channels, int64_t samples, double gap,
    bool at_start, int64_t seed, double tolerance, const at::Tensor& stop) {
  static const std::map<std::string, check::Spectrum> spectra = {
      {"distinct", check::Spectrum::distinct},
      {"close", check::Spectrum::close},
      {"equal", check::Spectrum::equal},
      {"deficient", check::Spectrum::deficient}};
  const auto found = spectra.find(text(spectrum));
  TORCH_CHECK_VALUE(found != spectra.end(),
                    "expected a spectrum distinct, close, equal or deficient, got '",
                    text(spectrum), "'");
  TORCH_CHECK_VALUE(stop.is_cpu() && stop.scalar_type() == at::kBool && stop.numel() == 1 &&
                        stop.unsafeGetTensorImpl()->has_storage() && stop.storage().data(),
                    "expected 1 bool on the CPU to stop by, got ", stop.toString(), " of ",
                    stop.sizes());
  check::CheckOptions options;
  options.channels = channels;
  options.samples = samples;
  options.spectrum = found->second;
  options.gap = gap;
  options.at_start = at_start;
  options.seed = static_cast<uint64_t>(seed);
  options.tolerance = tolerance;
  options.stop = [flag = stop.data_ptr<bool>()] { return __atomic_load_n(flag, __ATOMIC_RELAXED); };
  const check::CheckResult result = check::check_gradient(ops::spec_of(spec), options);
  static const char* const verdicts[] = {"ok", "off", "no gradient", "unresolved"};
  std::vector<std::string> words;
  std::vector<double> numbers;
  for (const check::CheckRow& row : result.rows) {
    words.push_back(row.of);
    words.push_back(verdicts[static_cast<int>(row.verdict)]);
    numbers.push_back(row.exact_error);
    numbers.push_back(row.paper_error.value_or(std::numeric_limits<double>::quiet_NaN()));
    numbers.push_back(row.resolution);
  }
  return {words, numbers, result.why_no_gradient};
}

}  // namespace
}  // namespace orthobatch::scripting

TORCH_LIBRARY_FRAGMENT(orthobatch, m) {
  using namespace orthobatch::scripting;
  m.def("with_eps(str spec, float? eps) -> (str, float)", with_eps);
  m.def("same_state(str a, str b) -> bool", same_state);
  m.def("traits(str spec) -> (bool, bool, bool, bool, int)", traits);
  m.def("skew_size(int channels) -> int", skew_size);
  m.def("methods() -> str[]", method_texts);
  m.def("method_arguments(str name) -> (str[], float[])", method_arguments);
  m.def(
      "check(str spec, str spectrum, int channels, int samples, float gap, bool at_start, "
      "int seed, float tolerance, Tensor stop) -> (str[], float[], str[])",
      check);
  m.def("covariance(Tensor x) -> Tensor", orthobatch::covariance);
  m.def("condition_number(Tensor covariance, Tensor? last=None) -> float",
        [](const at::Tensor& covariance, const c10::optional<at::Tensor>& last) {
          return orthobatch::condition_number(covariance, last.value_or(at::Tensor()));
        });
  m.def("effective_rank(Tensor covariance, float q=1, Tensor? last=None) -> float",
        [](const at::Tensor& covariance, double q, const c10::optional<at::Tensor>& last) {
          return orthobatch::effective_rank(covariance, q, last.value_or(at::Tensor()));
        });
  m.def("whiteness_error(Tensor z) -> float", orthobatch::whiteness_error);
  m.def("default_spec() -> str",
        [] { return orthobatch::to_string(orthobatch::parse(orthobatch::default_spec)); });
  m.def("version() -> str", [] { return std::string(ORTHOBATCH_VERSION); });
}
