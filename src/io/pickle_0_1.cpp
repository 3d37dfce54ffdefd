#include "io/pickle_0_1.h"

#include <algorithm>

#include "io/file.h"

namespace orthobatch {
namespace {

using Kind = PickleValue::Kind;

constexpr int largest_depth = 16;  // of nets within nets; ours take five
constexpr size_t most_values = 1000000;

constexpr const char* tensor_function = "torch._utils _rebuild_tensor_v2";
constexpr const char* hooks_class = "collections OrderedDict";

/// The type of a storage's numbers; empty for a class that is none.
std::string storage_dtype(const std::string& global) {
  return global == "torch FloatStorage"    ? "F32"
         : global == "torch DoubleStorage" ? "F64"
         : global == "torch LongStorage"   ? "I64"
                                           : "";
}

bool is_module_class(const std::string& global) {
  static const std::string package = "__torch__", name = " Module";
  return global.rfind(package, 0) == 0 && global.size() > package.size() + name.size() - 1 &&
         global.compare(global.size() - name.size(), name.size(), name) == 0;
}

class Machine {
 public:
  Machine(const std::string& bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  PicklePointer run() {
    while (step()) {
    }
    if (at_ != bytes_.size() || stack_.size() != 1 || !marks_.empty())
      fail("one value", "something beside it");
    return stack_.back();
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& found) const {
    throw FileError(path_, "pickle", expected, found + " at byte " + std::to_string(at_));
  }
  void require(bool holds, const char* expected) const {
    if (!holds) fail(expected, "something else");
  }

  // --- bytes
  const char* take(size_t size) {
    if (bytes_.size() - at_ < size) fail(std::to_string(size) + " bytes more", "its end");
    at_ += size;
    return bytes_.data() + at_ - size;
  }
  uint64_t number(size_t size) {
    const char* p = take(size);
    uint64_t n = 0;
    for (size_t i = 0; i < size; ++i) n |= uint64_t{static_cast<uint8_t>(p[i])} << (8 * i);
    return n;
  }
  std::string line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string::npos || end - at_ > 1000) fail("a name", "no end of a line");
    std::string out = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

  // --- values
  PickleValue& push(Kind kind) {
    if (++made_ > most_values) fail("at most a million values", "more");
    stack_.push_back(std::make_shared<PickleValue>());
    stack_.back()->kind = kind;
    return *stack_.back();
  }
  /// What lies under a mark is not there before the mark is taken.
  bool has_value() const { return stack_.size() > (marks_.empty() ? 0 : marks_.back()); }
  PicklePointer pop() {
    require(has_value(), "a value on the stack");
    PicklePointer value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top(Kind kind) {
    require(has_value() && stack_.back()->kind == kind, "a dict or a module on the stack");
    return *stack_.back();
  }
  std::vector<PicklePointer> pop_to_mark() {
    require(!marks_.empty(), "a mark");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PicklePointer> out(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return out;
  }
  /// Marks `child` as part of `parent`. Containers have one owner and change no more once they have
  /// it, so that nothing holds itself and no small pickle unfolds into a large tree.
  void hold(PickleValue& parent, PickleValue& child) {
    const bool container = !child.items.empty() || !child.members.empty();
    require(!parent.held && !(container && child.held) && &parent != &child,
            "parts with one owner");
    child.held = true;
    parent.depth = std::max(parent.depth, child.depth + 1);
    if (parent.depth > largest_depth) fail("values nested up to 16", "more");
  }
  void push_tuple(const std::vector<PicklePointer>& items) {
    PickleValue& tuple = push(Kind::tuple);
    for (const PicklePointer& item : items) hold(tuple, *item);
    tuple.items = items;
  }
  std::vector<int64_t> integers(const PickleValue& tuple) const {
    require(tuple.kind == Kind::tuple, "sizes");
    std::vector<int64_t> out;
    for (const PicklePointer& item : tuple.items) {
      require(item->kind == Kind::integer && item->integer >= 0, "sizes, 0 or more");
      out.push_back(item->integer);
    }
    return out;
  }

  bool step();
  bool push_constant(uint8_t code);
  bool keep_or_recall(uint8_t code);
  void push_global();
  void push_storage();
  void call();
  void make_module();
  void set_items();
  void build();

  const std::string& bytes_;
  const std::string& path_;
  size_t at_ = 0, made_ = 0;
  std::vector<PicklePointer> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, PicklePointer> memo_;
};

/// One opcode; false after the last. The letters are those of Python's pickletools.
bool Machine::step() {
  const auto code = static_cast<uint8_t>(*take(1));
  if (push_constant(code) || keep_or_recall(code)) return true;
  static const std::map<uint8_t, void (Machine::*)()> operations = {
      {'c', &Machine::push_global},  {'Q', &Machine::push_storage}, {'R', &Machine::call},
      {0x81, &Machine::make_module}, {'u', &Machine::set_items},    {'b', &Machine::build}};
  if (const auto it = operations.find(code); it != operations.end()) {
    (this->*it->second)();
    return true;
  }
  switch (code) {
    case 0x80:  // PROTO
      require(number(1) == 2, "protocol 2");
      return true;
    case '(':
      marks_.push_back(stack_.size());
      require(marks_.size() <= size_t{largest_depth} * 2, "few marks");
      return true;
    case ')':
      push(Kind::tuple);
      return true;
    case 't':
      push_tuple(pop_to_mark());
      return true;
    case '}':
      push(Kind::dict);
      return true;
    case '.':
      return false;
    default:
      fail("an opcode of a checkpoint", std::to_string(code));
  }
}

bool Machine::push_constant(uint8_t code) {
  switch (code) {
    case 'N':
      push(Kind::none);
      return true;
    case 0x88:
    case 0x89:
      push(Kind::flag).integer = code == 0x88;
      return true;
    case 'K':
    case 'M':
      push(Kind::integer).integer = static_cast<int64_t>(number(code == 'K' ? 1 : 2));
      return true;
    case 'J':
      push(Kind::integer).integer = static_cast<int32_t>(number(4));
      return true;
    case 0x8a:  // LONG1
      require(number(1) == 8, "an integer of 8 bytes");
      push(Kind::integer).integer = static_cast<int64_t>(number(8));
      return true;
    case 'G':  // not used: options of the optimizer, which the config has too
      take(8);
      push(Kind::real);
      return true;
    case 'X': {
      const size_t size = number(4);
      const char* first = take(size);
      push(Kind::text).text.assign(first, size);
      return true;
    }
    default:
      return false;
  }
}

bool Machine::keep_or_recall(uint8_t code) {
  if (code == 'q' || code == 'r') {
    const uint64_t key = number(code == 'q' ? 1 : 4);
    require(has_value(), "a value on the stack");
    memo_[key] = stack_.back();
    return true;
  }
  if (code == 'h' || code == 'j') {
    const auto it = memo_.find(number(code == 'h' ? 1 : 4));
    require(it != memo_.end(), "a value that was kept");
    if (++made_ > most_values) fail("at most a million values", "more");
    stack_.push_back(it->second);
    return true;
  }
  return false;
}

void Machine::push_global() {
  const std::string module = line();
  const std::string name = module + " " + line();
  if (name != tensor_function && name != hooks_class && storage_dtype(name).empty() &&
      !is_module_class(name))
    fail("a class of a checkpoint", "another");
  push(Kind::global).text = name;
}

/// ('storage', class, key, 'cpu', count)
void Machine::push_storage() {
  const PicklePointer tuple = pop();
  const auto& items = tuple->items;
  require(tuple->kind == Kind::tuple && items.size() == 5 && items[1]->kind == Kind::global &&
              items[2]->kind == Kind::text && items[3]->text == "cpu" &&
              items[4]->kind == Kind::integer && items[4]->integer >= 0,
          "a storage");
  const std::string dtype = storage_dtype(items[1]->text);
  require(items[0]->text == "storage" && !dtype.empty(), "a storage");
  PickleValue& storage = push(Kind::storage);
  storage.text = items[2]->text;
  storage.dtype = dtype;
  storage.integer = items[4]->integer;
}

/// A tensor, (storage, first, shape, strides, …), or the empty dict of its hooks.
void Machine::call() {
  const PicklePointer arguments = pop(), function = pop();
  require(arguments->kind == Kind::tuple && function->kind == Kind::global, "a tensor");
  const auto& a = arguments->items;
  if (function->text == hooks_class) {
    require(a.empty(), "no hooks");
    push(Kind::none);
    return;
  }
  require(function->text == tensor_function && a.size() == 6 && a[0]->kind == Kind::storage &&
              a[1]->kind == Kind::integer && a[1]->integer >= 0 && a[4]->kind == Kind::flag &&
              a[5]->kind == Kind::none,
          "a tensor");
  PickleValue& tensor = push(Kind::tensor);
  tensor.dtype = a[0]->dtype;
  tensor.integer = a[1]->integer;
  tensor.shape = integers(*a[2]);
  tensor.strides = integers(*a[3]);
  require(tensor.shape.size() == tensor.strides.size() && tensor.shape.size() <= 8,
          "a stride for each side");
  tensor.items = {a[0]};
}

void Machine::make_module() {
  const PicklePointer arguments = pop(), type = pop();
  require(arguments->kind == Kind::tuple && arguments->items.empty() &&
              type->kind == Kind::global && is_module_class(type->text),
          "a module");
  push(Kind::module);
}

void Machine::set_items() {
  const std::vector<PicklePointer> items = pop_to_mark();
  PickleValue& dict = top(Kind::dict);
  require(items.size() % 2 == 0, "a value for each name");
  for (size_t i = 0; i < items.size(); i += 2) {
    require(items[i]->kind == Kind::text && items[i]->text.size() <= 200, "a name");
    hold(dict, *items[i + 1]);
    require(dict.members.emplace(items[i]->text, items[i + 1]).second, "each name once");
  }
}

void Machine::build() {
  const PicklePointer state = pop();
  PickleValue& module = top(Kind::module);
  require(state->kind == Kind::dict && !state->held && !module.held && module.members.empty(),
          "the members of a module");
  state->held = true;
  module.members.swap(state->members);
  module.depth = state->depth;
}

}  // namespace

PicklePointer parse_pickle_0_1(const std::string& bytes, const std::string& path) {
  return Machine(bytes, path).run();
}

}  // namespace orthobatch
