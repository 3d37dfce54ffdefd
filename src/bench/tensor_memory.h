#pragma once

#include <cstdint>
#include <memory>

namespace orthobatch::bench {

/// Bytes of the tensors that libtorch allocates on the calling thread, and in the backward passes
/// it starts, while an object of this kind exists. What a kernel takes from the heap for itself is
/// not seen.
class TensorMemory {
 public:
  TensorMemory();
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  int64_t in_use() const;
  /// The most in use since the last reset.
  int64_t peak() const;
  void reset_peak();

 private:
  struct Guarded;
  std::unique_ptr<Guarded> guarded_;
};

}  // namespace orthobatch::bench
