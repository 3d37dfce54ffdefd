#include "orthobatch/spec.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "core/registry.h"

namespace orthobatch {
namespace {

using core::find_method;
using core::MethodInfo;
using core::Parameter;
using core::registry;

constexpr double largest_group = 1 << 30;

std::vector<std::string> method_names() {
  std::vector<std::string> out;
  for (const MethodInfo& info : registry()) out.push_back(info.name);
  return out;
}

std::string range_text(const Parameter& p) {
  if (p.style == Parameter::Style::flag) return "0 or 1";
  const std::string kind = p.style == Parameter::Style::integer ? "a whole number" : "a number";
  if (std::isinf(p.maximum)) return kind + " ≥ " + base::number_text(p.minimum);
  return kind + " from " + base::number_text(p.minimum) + " to " + base::number_text(p.maximum);
}

bool in_range(const Parameter& p, double x) {
  if (!(x >= p.minimum && x <= p.maximum)) return false;
  if (p.finite && std::isinf(x)) return false;
  return p.style == Parameter::Style::number || p.style == Parameter::Style::fraction ||
         x == std::floor(x);
}

std::string value_text(const Parameter& p, double x) {
  return p.style == Parameter::Style::fraction ? base::fraction_text(x) : base::number_text(x);
}

/// Whether a parameter has an effect in a layer with this gradient.
bool acts(const Parameter& p, Gradient gradient) {
  return !p.paper_only || gradient == Gradient::paper;
}

Parameter group_size_parameter() {
  Parameter p;
  p.name = "group_size";
  p.minimum = 1;
  p.maximum = largest_group;
  p.style = Parameter::Style::integer;
  return p;
}

}  // namespace

SpecError::SpecError(const std::string& text, size_t position, const std::string& message)
    : std::invalid_argument("layer spec: " + message + "\n  " + text + "\n  " +
                            std::string(position, ' ') + "^"),
      position_(position),
      message_(message) {}

/// Recursive descent over the text; `at_` is always the next character to read.
class SpecParser {
 public:
  explicit SpecParser(const std::string& text) : text_(text) {}

  LayerSpec run() {
    skip_space();
    const size_t start = at_;
    const std::string name = word();
    if (!name.empty() && name[0] >= '0' && name[0] <= '9') {
      const std::string number = text_.substr(start, text_.find_first_of(" ,()", start) - start);
      fail(start, "expected a method: " + base::join_choices(method_names()) +
                      "; found the number " + number + ". For an epsilon write eps=" + number +
                      " beside the spec, or \"ZCA(" + number + ")\" as the spec");
    }
    if (name.empty()) fail(start, "expected a method: " + base::join_choices(method_names()));
    for (const MethodInfo& info : registry())
      if (info.name == name) info_ = &info;
    if (!info_)
      fail(start, "unknown method '" + name + "', expected " + base::join_choices(method_names()) +
                      base::suggestion(name, method_names()));
    spec_.method_ = name;
    for (const Parameter& p : info_->parameters) spec_.values_[p.name] = p.default_value;
    if (accept('(')) arguments();
    rotation();
    check_gradient(gradient_at_);
    return spec_;
  }

  // For LayerSpec::with…: the same checks on a value that did not come from text.
  static void set(LayerSpec& spec, const std::string& name, double value) {
    const Parameter* p = find_method(spec.method_).find(name);
    const std::string call = to_string(spec) + " with " + name + "=" + base::number_text(value);
    if (!p) throw SpecError(call, 0, spec.method_ + " has no argument '" + name + "'");
    if (!in_range(*p, value)) throw SpecError(call, 0, name + " must be " + range_text(*p));
    spec.values_[name] = value;
  }
  static void set_gradient(LayerSpec& spec, Gradient gradient, Rotation rotation) {
    spec.gradient_ = gradient;
    spec.rotation_ = rotation;
    if (!gradient_exists(spec)) throw SpecError(to_string(spec), 0, no_paper_gradient(spec));
  }
  static void set_group_size(LayerSpec& spec, int64_t channels) {
    const Parameter p = group_size_parameter();
    if (channels != 0 && !in_range(p, static_cast<double>(channels)))
      throw SpecError(to_string(spec), 0,
                      p.name + " must be " + range_text(p) + ", or 0 for all channels");
    spec.group_size_ = channels;
  }

 private:
  [[noreturn]] void fail(size_t position, const std::string& message) const {
    throw SpecError(text_, position, message);
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool accept(const std::string& token) {
    skip_space();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    skip_space();
    return true;
  }
  bool accept(char c) { return accept(std::string(1, c)); }

  std::string found() const {
    if (at_ >= text_.size()) return "the end of the text";
    size_t end = at_ + 1;  // a character of UTF-8 whole
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0) == 0x80) ++end;
    return "'" + text_.substr(at_, end - at_) + "'";
  }

  std::string word() {
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    return text_.substr(start, at_ - start);
  }

  void arguments() {
    size_t position = 0;  // how many positional arguments were read
    if (accept(')')) return;
    do {
      if (std::isalpha(static_cast<unsigned char>(peek())) && !at_infinity()) {
        keyword();
        keywords_began_ = true;
      } else {
        positional(position++);
      }
    } while (accept(','));
    if (!accept(')')) fail(at_, "expected ',' or ')', found " + found());
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  bool at_infinity() const {
    return text_.compare(at_, 3, "inf") == 0 &&
           (at_ + 3 >= text_.size() || !std::isalnum(static_cast<unsigned char>(text_[at_ + 3])));
  }

  void positional(size_t index) {
    const size_t start = at_;
    size_t seen = 0;
    if (keywords_began_) fail(start, "a value without a name must come before the named ones");
    for (const Parameter& p : info_->parameters)
      if (p.positional && seen++ == index) return assign(p, number(p), start);
    fail(start, info_->name + " takes " + std::to_string(seen) +
                    (seen == 1 ? " value" : " values") + " without a name (" + positional_names() +
                    "), found one more");
  }

  void keyword() {
    const size_t start = at_;
    const std::string name = word();
    skip_space();
    if (name == "gradient") return gradient();
    const Parameter group_size = group_size_parameter();
    const Parameter* p = name == group_size.name ? &group_size : info_->find(name);
    if (!p)
      fail(start, info_->name + " has no argument '" + name + "', expected " +
                      base::join_choices(keyword_names()) +
                      base::suggestion(name, keyword_names()));
    if (p->style == Parameter::Style::flag && peek() != '=') return assign(*p, 1, start);
    if (!accept('=')) fail(at_, "expected '=' after '" + name + "', found " + found());
    const size_t value_at = at_;
    const double value = number(*p);
    once(name, start);
    check_range(*p, value, value_at);
    if (p == &group_size)
      spec_.group_size_ = static_cast<int64_t>(value);
    else
      spec_.values_[name] = value;
  }

  void gradient() {
    if (!accept('=')) fail(at_, "expected '=' after 'gradient', found " + found());
    gradient_at_ = at_;
    const std::string value = word();
    if (value != "exact" && value != "paper")
      fail(gradient_at_, "gradient must be exact or paper, found '" + value + "'" +
                             base::suggestion(value, {"exact", "paper"}));
    once("gradient", gradient_at_);
    spec_.gradient_ = value == "paper" ? Gradient::paper : Gradient::exact;
  }

  void assign(const Parameter& p, double value, size_t start) {
    once(p.name, start);
    check_range(p, value, start);
    spec_.values_[p.name] = value;
  }

  void once(const std::string& name, size_t start) {
    for (const std::string& given : given_)
      if (given == name) fail(start, "'" + name + "' is given twice");
    given_.push_back(name);
  }

  void check_range(const Parameter& p, double value, size_t start) const {
    if (!in_range(p, value))
      fail(start, p.name + " must be " + range_text(p) + ", found " + base::number_text(value));
  }

  /// 1e-5, 0, inf, 1/100
  double number(const Parameter& p) {
    const double numerator = plain_number(p);
    if (!accept('/')) return numerator;
    const size_t start = at_;
    const double denominator = plain_number(p);
    if (denominator == 0) fail(start, "division by zero in " + p.name);
    return numerator / denominator;
  }

  double plain_number(const Parameter& p) {
    double value = 0;
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc::result_out_of_range)
      fail(at_, "expected " + range_text(p) + " for " + p.name + ", found " +
                    std::string(begin, stop) + ", which no double can hold (inf is infinity)");
    if (error != std::errc() || std::isnan(value))
      fail(at_, "expected " + range_text(p) + " for " + p.name +
                    " (written as 1e-5, 0, inf or 1/100), found " + found());
    at_ += stop - begin;
    skip_space();
    return value;
  }

  void rotation() {
    spec_.rotation_ = Rotation::none;
    skip_space();
    if (at_ == text_.size()) return;
    if (!accept("->")) fail(at_, "expected '(', '->W' or the end of the text, found " + found());
    expect_word("W");
    spec_.rotation_ = Rotation::W;
    skip_space();
    if (at_ == text_.size()) return;
    if (!accept("->")) fail(at_, "expected '->Gamma' or the end of the text, found " + found());
    expect_word("Gamma");
    spec_.rotation_ = Rotation::W_Gamma;
    skip_space();
    if (at_ != text_.size()) fail(at_, "expected the end of the text, found " + found());
  }

  void expect_word(const std::string& wanted) {
    const size_t start = at_;
    const std::string name = word();
    if (name != wanted)
      fail(start, "expected '" + wanted + "' after '->', found " +
                      (name.empty() ? found() : "'" + name + "'"));
  }

  static bool gradient_exists(const LayerSpec& spec) {
    return spec.gradient_ == Gradient::exact || spec.has_rotation() ||
           find_method(spec.method_).has_paper_gradient;
  }
  static std::string no_paper_gradient(const LayerSpec& spec) {
    return "the paper prints no gradient for " + spec.method_ +
           " without ->W; expected gradient=exact";
  }
  void check_gradient(size_t position) const {
    if (!gradient_exists(spec_)) fail(position, no_paper_gradient(spec_));
  }

  std::string positional_names() const {
    std::string out;
    for (const Parameter& p : info_->parameters)
      if (p.positional) out += (out.empty() ? "" : ",") + p.name;
    return out;
  }

  std::vector<std::string> keyword_names() const {
    std::vector<std::string> out;
    for (const Parameter& p : info_->parameters) out.push_back(p.name);
    out.insert(out.end(), {"group_size", "gradient"});
    return out;
  }

  const std::string& text_;
  size_t at_ = 0;
  size_t gradient_at_ = 0;
  bool keywords_began_ = false;
  const MethodInfo* info_ = nullptr;
  std::vector<std::string> given_;
  LayerSpec spec_;
};

LayerSpec::LayerSpec(const std::string& text) : LayerSpec(SpecParser(text).run()) {}
LayerSpec::LayerSpec(const char* text) : LayerSpec(std::string(text)) {}

double LayerSpec::value(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end())
    throw SpecError(to_string(*this), 0, method_ + " has no argument '" + name + "'");
  return it->second;
}

LayerSpec LayerSpec::with(const std::string& name, double value) const {
  LayerSpec out = *this;
  SpecParser::set(out, name, value);
  return out;
}

LayerSpec LayerSpec::with_gradient(Gradient gradient) const {
  LayerSpec out = *this;
  SpecParser::set_gradient(out, gradient, rotation_);
  return out;
}

LayerSpec LayerSpec::with_rotation(Rotation rotation) const {
  LayerSpec out = *this;
  SpecParser::set_gradient(out, gradient_, rotation);
  return out;
}

LayerSpec LayerSpec::with_group_size(int64_t channels) const {
  LayerSpec out = *this;
  SpecParser::set_group_size(out, channels);
  return out;
}

bool LayerSpec::operator==(const LayerSpec& other) const {
  if (method_ != other.method_ || group_size_ != other.group_size_ ||
      gradient_ != other.gradient_ || rotation_ != other.rotation_)
    return false;
  for (const Parameter& p : find_method(method_).parameters)
    if (acts(p, gradient_) && value(p.name) != other.value(p.name)) return false;
  return true;
}

std::vector<MethodDescription> methods() {
  std::vector<MethodDescription> out;
  for (const MethodInfo& info : registry()) {
    MethodDescription m{info.name, info.formula, info.description, info.paper, {}, false};
    m.has_paper_gradient = info.has_paper_gradient;
    for (const Parameter& p : info.parameters)
      m.arguments.push_back({p.name, p.default_value, range_text(p), p.positional,
                             p.style == Parameter::Style::flag, p.meaning});
    out.push_back(std::move(m));
  }
  return out;
}

LayerSpec parse(const std::string& text) { return LayerSpec(text); }

std::string to_string(const LayerSpec& spec) {
  const MethodInfo& info = find_method(spec.method());
  std::vector<std::string> arguments;
  bool in_place = true;  // nothing was left out before it
  for (const Parameter& p : info.parameters) {
    const double x = spec.value(p.name);
    // BN is the one name that stands alone: its ε is an argument only where it is not torch's.
    const bool usual = (!p.positional || info.per_channel) && x == p.default_value;
    if (usual || !acts(p, spec.gradient()))
      in_place = false;
    else if (p.style == Parameter::Style::flag)
      arguments.push_back(p.name);
    else
      arguments.push_back((p.positional && in_place ? "" : p.name + "=") + value_text(p, x));
  }
  if (spec.group_size() > 0) arguments.push_back("group_size=" + std::to_string(spec.group_size()));
  if (spec.gradient() == Gradient::paper) arguments.push_back("gradient=paper");

  std::string out = info.name;
  for (size_t k = 0; k < arguments.size(); ++k) out += (k == 0 ? "(" : ",") + arguments[k];
  if (!arguments.empty()) out += ")";
  if (spec.has_rotation()) out += "->W";
  if (spec.rotation() == Rotation::W_Gamma) out += "->Gamma";
  return out;
}

}  // namespace orthobatch
