#pragma once
// Layer specs: the paper's names for the layers, as text and as values.
//
//   method [ '(' arguments ')' ] [ '->W' [ '->Gamma' ] ]
//
//   BN   ZCA(1e-5)   ZCAM(1e-5, c=1/100)   ZCAE(1e-5, q=0.5)   LDL(0)->W->Gamma
//   ZCA(1e-5, group_size=16)
//
// The paper's K, as in ZCAM(1e-5,1e12,1/100), acts in the ZCA layers with gradient=paper alone: it
// is read everywhere, and left out of the canonical text where it has no effect.
//
// methods() lists the methods with their arguments; `orthobatch layers` prints them.

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "orthobatch/export.h"

namespace orthobatch {

/// The spec of a layer that is given none: safe to evaluate with running statistics, its cost linear in
/// the channels (docs/choosing.md).
inline constexpr const char* default_spec = "ZCAM(1e-5, c=1/10, group_size=16)";

/// Which backward formulas a layer uses.
enum class Gradient {
  exact,  ///< the derivative of what forward computes (docs/math.md)
  paper,  ///< as printed in the paper, errors included (docs/errata.md)
};

/// What follows the whitening transform T in Z = R T Xc + b.
enum class Rotation {
  none,     ///< R = Γ
  W,        ///< R = W: a learned rotation, no scale
  W_Gamma,  ///< R = Γ W
};

/// A spec that does not parse or whose values are out of range. `what()` shows the text, a caret
/// under the place, and what was expected there.
class ORTHOBATCH_API SpecError : public std::invalid_argument {
 public:
  SpecError(const std::string& text, size_t position, const std::string& message);

  /// Offset in the text, in bytes, of the character at fault.
  size_t position() const { return position_; }
  /// The message alone, one line.
  const std::string& message() const { return message_; }

 private:
  size_t position_;
  std::string message_;
};

/// One layer, as a value: a method of the registry with its arguments.
class ORTHOBATCH_API LayerSpec {
 public:
  /// Parses the text; throws SpecError.
  LayerSpec(const std::string& text);  // NOLINT(google-explicit-constructor): specs are text
  LayerSpec(const char* text);         // NOLINT(google-explicit-constructor): specs are text

  const std::string& method() const { return method_; }
  Gradient gradient() const { return gradient_; }
  Rotation rotation() const { return rotation_; }
  /// Channels in a group, each group whitened alone; 0: all channels together. Where it does not
  /// divide the channels of the layer, the last group is smaller.
  int64_t group_size() const { return group_size_; }
  /// An argument of the method by name ("eps", "K", "c", "q", "T", …); flags are 0 or 1.
  double value(const std::string& name) const;
  const std::map<std::string, double>& values() const { return values_; }

  /// True when γ scales the output rows (every spec except those that end in `->W`).
  bool has_scale() const { return rotation_ != Rotation::W; }
  bool has_rotation() const { return rotation_ != Rotation::none; }

  /// Each returns a changed copy and throws SpecError where the method does not take the value.
  LayerSpec with(const std::string& name, double value) const;
  LayerSpec with_gradient(Gradient gradient) const;
  LayerSpec with_rotation(Rotation rotation) const;
  LayerSpec with_group_size(int64_t channels) const;

  /// The same layer: arguments without an effect are not compared.
  bool operator==(const LayerSpec& other) const;
  bool operator!=(const LayerSpec& other) const { return !(*this == other); }

 private:
  LayerSpec() = default;
  friend class SpecParser;

  std::string method_;
  std::map<std::string, double> values_;
  int64_t group_size_ = 0;
  Gradient gradient_ = Gradient::exact;
  Rotation rotation_ = Rotation::none;
};

/// An argument that a method's spec takes.
struct ArgumentDescription {
  std::string name;
  double default_value = 0;
  std::string range;       ///< "a number ≥ 0"
  bool positional = true;  ///< may stand without its name, in the order of the list
  bool flag = false;       ///< stands alone, without a value
  std::string meaning;
};

/// A method, as specs name it. Every method also takes group_size, and gradient where the paper
/// prints one.
struct MethodDescription {
  std::string name;
  std::string formula;      ///< T in a line
  std::string description;  ///< what it does in a sentence
  std::string paper;        ///< what the paper found
  std::vector<ArgumentDescription> arguments;
  bool has_paper_gradient = false;
};

/// Every method there is.
ORTHOBATCH_API std::vector<MethodDescription> methods();

/// Text to value; throws SpecError.
ORTHOBATCH_API LayerSpec parse(const std::string& text);

/// Value to the one canonical text: parse(to_string(s)) == s.
ORTHOBATCH_API std::string to_string(const LayerSpec& spec);

}  // namespace orthobatch
