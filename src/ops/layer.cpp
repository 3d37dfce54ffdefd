#include "ops/layer.h"

#include <mutex>
#include <unordered_map>

#include "base/processor.h"
#include "core/registry.h"

namespace orthobatch::ops {
namespace {

/// Reads a text from left to right.
class Reader {
 public:
  explicit Reader(c10::string_view text) : text_(text.data(), text.size()) {}

  bool skip(const std::string& word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  void expect(const std::string& word) {
    if (!skip(word)) fail(word);
  }
  int64_t number() {
    const size_t end = text_.find_first_not_of("0123456789", at_);
    const std::string digits = text_.substr(at_, end == std::string::npos ? end : end - at_);
    if (digits.empty() || digits.size() > 18) fail("a number");
    at_ += digits.size();
    return std::stoll(digits);
  }
  std::string until(char mark) {
    const size_t end = text_.find(mark, at_);
    if (end == std::string::npos) fail(std::string(1, mark));
    std::string out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }
  /// All but the last character.
  std::string rest() {
    std::string out = text_.substr(at_, text_.size() - at_ - 1);
    at_ = text_.size();
    return out;
  }
  bool done() const { return at_ == text_.size(); }
  [[noreturn]] void fail(const std::string& expected) const {
    TORCH_CHECK_VALUE(false, "expected a layer as BatchOrtho2d(64, \"ZCA(1e-5)\"), got '", text_,
                      "': expected ", expected, " at character ", at_ + 1);
  }

 private:
  std::string text_;
  size_t at_ = 0;
};

Layer parse_layer(c10::string_view text) {
  Reader reader(text);
  Layer out;
  reader.expect("BatchOrtho");
  out.dims = reader.number();
  reader.expect("d(");
  out.num_features = reader.number();
  reader.expect(", \"");
  out.spec = spec_of(reader.until('"'));
  if (reader.skip(", sample_stride=")) out.sample_stride = reader.number();
  if (reader.skip(", running_average=transform")) out.average = RunningAverage::transform;
  if (reader.skip(", group=")) out.group = reader.number();
  reader.expect(")");
  if (reader.skip(" '")) out.name = reader.rest();
  if (!reader.done()) reader.fail("its end");
  return out;
}

std::string type_of(const Layer& layer) { return "BatchOrtho" + std::to_string(layer.dims) + "d"; }

void check(const Layer& layer) {
  const std::string type = type_of(layer);
  TORCH_CHECK_VALUE(layer.dims >= 1 && layer.dims <= 3,
                    "expected a layer of 1, 2 or 3 dimensions, got ", layer.dims);
  TORCH_CHECK_VALUE(layer.num_features >= 1 && layer.num_features <= max_features, type,
                    ": expected 1 to ", max_features, " channels, got ", layer.num_features);
  TORCH_CHECK_VALUE(layer.sample_stride >= 1, type, ": expected a sample_stride of 1 or more, got ",
                    layer.sample_stride);
  TORCH_CHECK_VALUE(layer.average == RunningAverage::covariance ||
                        !core::find_method(layer.spec.method()).scale_inside,
                    type, ": ", layer.spec.method(),
                    " has its scale inside the transform; expected a running average of the "
                    "covariance");
}

}  // namespace

bool Layer::operator==(const Layer& other) const {
  return dims == other.dims && num_features == other.num_features && spec == other.spec &&
         sample_stride == other.sample_stride && average == other.average && group == other.group &&
         name == other.name;
}

std::string Layer::text() const {
  check(*this);
  std::string out =
      type_of(*this) + "(" + std::to_string(num_features) + ", \"" + to_string(spec) + "\"";
  if (sample_stride != 1) out += ", sample_stride=" + std::to_string(sample_stride);
  if (average == RunningAverage::transform) out += ", running_average=transform";
  if (group != 0) out += ", group=" + std::to_string(group);
  out += ")";
  return name.empty() ? out : out + " '" + name + "'";
}

std::string Layer::description() const {
  const std::string out =
      type_of(*this) + "(" + std::to_string(num_features) + ", \"" + to_string(spec) + "\")";
  return name.empty() ? out : out + " '" + name + "'";
}

KnownLayer::KnownLayer(Layer layer)
    : Layer(std::move(layer)),
      who(description()),
      algebra(spec, num_features),
      per_channel(is_per_channel(spec) && average == RunningAverage::covariance) {}

std::shared_ptr<const KnownLayer> layer_of(c10::string_view text) {
  static std::mutex* const mutex = new std::mutex;  // never destroyed: threads may outlive main
  static auto* const known = new std::unordered_map<std::string, std::shared_ptr<const KnownLayer>>;
  constexpr size_t many = 4096;
  std::string key(text.data(), text.size());
  const std::lock_guard<std::mutex> lock(*mutex);
  if (const auto found = known->find(key); found != known->end()) return found->second;
  Layer layer = parse_layer(text);
  check(layer);
  auto made = std::make_shared<const KnownLayer>(std::move(layer));
  if (known->size() >= many) known->clear();
  known->emplace(std::move(key), made);
  return made;
}

LayerSpec spec_of(c10::string_view text, c10::optional<double> eps) {
  try {
    const LayerSpec spec(std::string(text.data(), text.size()));
    return eps.has_value() ? spec.with("eps", *eps) : spec;
  } catch (const SpecError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

std::vector<std::string> advice(const KnownLayer& layer) {
  constexpr int64_t wide = 512;
  std::vector<std::string> out;
  if (layer.per_channel) return out;
  const base::BlasCore core = base::blas_core();
  if (!core.better.empty())
    out.push_back(core.library + " takes this processor for a " + core.name +
                  " and is slow; set OPENBLAS_CORETYPE=" + core.better +
                  " in the environment before the program starts");
  const int64_t together = layer.algebra.block();
  if (together > wide)
    out.push_back(c10::str(to_string(layer.spec), " whitens ", together,
                           " channels together, which takes seconds a step from about 2000; a "
                           "group_size of 16 to 64 takes a fraction. Said once."));
  return out;
}

bool is_per_channel(const LayerSpec& spec) { return core::find_method(spec.method()).per_channel; }

bool same_state(const LayerSpec& a, const LayerSpec& b) {
  if (a.method() != b.method() || a.rotation() != b.rotation() || a.group_size() != b.group_size())
    return false;
  for (const core::Parameter& p : core::find_method(a.method()).parameters)
    if (p.style == core::Parameter::Style::flag && a.value(p.name) != b.value(p.name)) return false;
  return true;
}

void check_momentum(const c10::optional<double>& momentum, const std::string& who) {
  TORCH_CHECK_VALUE(!momentum || (*momentum >= 0 && *momentum <= 1), who,
                    ": expected a momentum from 0 to 1, got ", momentum.value_or(0));
}

StatisticSizes statistic_sizes(const LayerSpec& spec, int64_t num_features,
                               RunningAverage average) {
  const int64_t n = num_features, g = spec.group_size();
  if (is_per_channel(spec))
    return {average == RunningAverage::covariance ? std::vector<int64_t>{n}
                                                  : std::vector<int64_t>{n, 1, 1},
            {}};
  if (g == 0 || g >= n) return {{n, n}, {}};
  StatisticSizes out{{n / g, g, g}, {}};
  if (n % g > 0) out.last = {n % g, n % g};
  return out;
}

}  // namespace orthobatch::ops
