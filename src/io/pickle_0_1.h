#pragma once
// The pickle in a checkpoint of 0.1, read without running anything: modules become trees of names,
// tensors become the places of their numbers.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace orthobatch {

struct PickleValue;
using PicklePointer = std::shared_ptr<PickleValue>;

struct PickleValue {
  enum class Kind { none, flag, integer, real, text, global, tuple, dict, module, storage, tensor };
  Kind kind = Kind::none;
  int64_t integer = 0;                  ///< also a flag; the numbers in a storage; a tensor's first
  std::string text;                     ///< also the name of a global; the key of a storage
  std::string dtype;                    ///< of a storage or tensor, as safetensors names it
  std::vector<PicklePointer> items;     ///< of a tuple; the storage of a tensor
  std::vector<int64_t> shape, strides;  ///< of a tensor
  std::map<std::string, PicklePointer> members;  ///< of a dict or a module
  int depth = 1;                                 ///< of what is in it
  bool held = false;                             ///< by another value: it may not change any more
};

/// The one value of a pickle as torch::serialize::OutputArchive writes them. Takes only the opcodes
/// and globals that it uses: no other class or function can be named, let alone called. Nesting is
/// bounded and nothing holds itself. Throws FileError, which calls the file `path`.
PicklePointer parse_pickle_0_1(const std::string& bytes, const std::string& path);

}  // namespace orthobatch
