// A device that is no CPU, for tests: torch's PrivateUse1 with memory that the host may not touch. Pages
// are readable only while one of the device's own operators runs, which is torch's for the CPU on that
// memory; a read through a raw pointer ends the process. Transfers are counted.
//
//   torch.ops.load_library("stand_in.so"); x.to("privateuseone")
//   torch.ops.stand_in.counts()    transfers to the host, transfers to the device, since `reset`
//   torch.ops.stand_in.peek(x)     reads a value as a host must not: the process ends
//   STAND_IN_DOUBLE=0              in the environment: the device has no double

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/version.h>
#if TORCH_VERSION_MAJOR >= 2 && TORCH_VERSION_MINOR >= 9
#include <ATen/detail/PrivateUse1HooksInterface.h>
#define HOOKS  // autograd asks for them
#endif

#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace {

using at::Tensor;

constexpr auto device_type = c10::DeviceType::PrivateUse1;
std::atomic<int64_t> to_host{0}, to_device{0};

// ------------------------------------------------------------------------------------- memory

/// Addresses that are mapped, and by how many operators they are open.
class Pages {
 public:
  char* map(size_t size) {
    const size_t whole = (size + 4095) / 4096 * 4096;
    void* data = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(data != MAP_FAILED, "stand_in: out of memory");
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_[static_cast<char*>(data)] = {whole, 0};
    return static_cast<char*>(data);
  }
  void unmap(char* data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    munmap(data, blocks_.at(data).size);
    blocks_.erase(data);
  }
  void open(char* data, int by) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Block& block = blocks_.at(data);
    block.users += by;
    mprotect(data, block.size, block.users > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }

 private:
  struct Block {
    size_t size;
    int users;
  };
  std::mutex mutex_;
  std::map<char*, Block> blocks_;
};
Pages& pages() {
  static auto* const all = new Pages;  // tensors may outlive main
  return *all;
}

struct Memory : c10::Allocator {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
  c10::DataPtr allocate(size_t size) override {
#else
  c10::DataPtr allocate(size_t size) const override {
#endif
    char* data = size > 0 ? pages().map(size) : nullptr;
    return {data, data, size > 0 ? &free : nullptr, c10::Device(device_type, 0)};
  }
#if TORCH_VERSION_MAJOR >= 2
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "stand_in: expected no copy of raw memory");
  }
#endif
  static void free(void* data) { pages().unmap(static_cast<char*>(data)); }
};
Memory memory;

bool ours(const Tensor& t) { return t.defined() && t.device().type() == device_type; }

/// CPU tensors on the memory of the device's, which is open while they live.
class Aliases {
 public:
  Aliases() = default;
  Aliases(const Aliases&) = delete;
  Aliases& operator=(const Aliases&) = delete;
  ~Aliases() {
    for (const Pair& p : pairs_)
      if (p.memory) pages().open(p.memory, -1);
  }

  Tensor of(const Tensor& own) {
    if (!ours(own)) return own;
    char* const memory = static_cast<char*>(own.storage().data_ptr().get_context());
    if (memory) pages().open(memory, +1);
    const auto options = at::TensorOptions(own.scalar_type());
    Tensor alias = own.numel() == 0 ? at::empty_strided(own.sizes(), own.strides(), options)
                                    : at::from_blob(const_cast<void*>(own.data_ptr()), own.sizes(),
                                                    own.strides(), options);
    pairs_.push_back({own, alias, memory});
    return alias;
  }

  /// A result on the device: the argument itself, a view of it, or a copy.
  Tensor back(const Tensor& result) const {
    if (!result.defined() || !result.is_cpu()) return result;
    for (const Pair& p : pairs_)
      if (p.alias.is_same(result)) {
        if (result.sizes() != p.own.sizes()) resize(p.own, copy_of(result));
        return p.own;
      }
    for (const Pair& p : pairs_)
      if (p.alias.numel() > 0 && p.alias.is_alias_of(result))
        return p.own.as_strided(result.sizes(), result.strides(),
                                p.own.storage_offset() + result.storage_offset());
    return copy_of(result);
  }

 private:
  struct Pair {
    Tensor own, alias;
    char* memory;
  };
  static Tensor copy_of(const Tensor& result) {
    Tensor out = at::empty_strided(result.sizes(), result.strides(),
                                   result.options().device(c10::Device(device_type, 0)));
    if (result.numel() > 0) {
      Aliases copy;
      copy.of(out).copy_(result);
    }
    return out;
  }
  /// An empty output that its operator gave a size.
  static void resize(const Tensor& own, const Tensor& with) {
    c10::TensorImpl* const impl = own.unsafeGetTensorImpl();
    impl->set_storage_keep_dtype(with.storage());
    impl->set_sizes_and_strides(with.sizes(), with.strides());
  }
  std::vector<Pair> pairs_;
};

// ---------------------------------------------------------------------------------- operators

/// Any operator: torch's for the CPU on the same memory.
void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Aliases aliases;
  const auto& schema = op.schema();
  const size_t first = stack->size() - schema.arguments().size();
  bool any = false;
  for (size_t k = first; k < stack->size(); ++k) {
    c10::IValue& value = (*stack)[k];
    if (value.isTensor()) {
      any = any || ours(value.toTensor());
      value = aliases.of(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& t : value.toTensorVector()) {
        any = any || ours(t);
        list.push_back(aliases.of(t));
      }
      value = list;
    } else if (value.isOptionalTensorList()) {
      c10::List<c10::optional<Tensor>> list;
      for (const c10::optional<Tensor>& t : value.toOptionalTensorVector())
        list.push_back(t.has_value() ? c10::optional<Tensor>(aliases.of(*t)) : t);
      value = list;
    } else if (value.isDevice()) {
      value = c10::Device(at::kCPU);
    }
  }
  TORCH_CHECK(any, "stand_in: expected a tensor of its own in ", schema);
  op.callBoxed(stack);
  for (size_t k = stack->size() - schema.returns().size(); k < stack->size(); ++k) {
    c10::IValue& value = (*stack)[k];
    if (value.isTensor()) {
      value = aliases.back(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& t : value.toTensorVector()) list.push_back(aliases.back(t));
      value = list;
    } else {
      ++to_host;  // a number or a flag: the host has waited for it
    }
  }
}

void check_type(at::ScalarType type) {
  static const char* const has = std::getenv("STAND_IN_DOUBLE");
  TORCH_CHECK_TYPE(type != at::kDouble || !has || *has != '0', "stand_in: this device has no double");
}

Tensor empty(at::IntArrayRef size, c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
             c10::optional<at::Device>, c10::optional<bool>,
             c10::optional<at::MemoryFormat> format) {
  const at::ScalarType of = c10::dtype_or_default(type);
  check_type(of);
  return Tensor(at::detail::empty_generic(
      size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), of, format));
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                     c10::optional<at::ScalarType> type, c10::optional<at::Layout>,
                     c10::optional<at::Device>, c10::optional<bool>) {
  const at::ScalarType of = c10::dtype_or_default(type);
  check_type(of);
  return Tensor(at::detail::empty_strided_generic(
      size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), of));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  if (from.numel() > 0 && ours(from) != ours(to)) ++(ours(from) ? to_host : to_device);
  Aliases aliases;
  aliases.of(to).copy_(aliases.of(from));
  return to;
}

at::Scalar local_scalar(const Tensor& t) {
  ++to_host;
  Aliases aliases;
  return aliases.of(t).item();
}

Tensor convolution(const Tensor& x, const Tensor& weight, const c10::optional<Tensor>& bias,
                   at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                   bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  Aliases aliases;
  const c10::optional<Tensor> b =
      bias.has_value() && bias->defined() ? c10::optional<Tensor>(aliases.of(*bias)) : c10::nullopt;
  return aliases.back(at::convolution(aliases.of(x), aliases.of(weight), b, stride, padding,
                                      dilation, transposed, output_padding, groups));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad, const Tensor& x, const Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  Aliases aliases;
  const std::vector<int64_t> bias_sizes = {grad.size(1)};
  const auto [dx, dw, db] = at::convolution_backward(
      aliases.of(grad), aliases.of(x), aliases.of(weight), at::OptionalIntArrayRef(bias_sizes),
      stride, padding, dilation, transposed, output_padding, groups, mask);
  return {aliases.back(dx), aliases.back(dw), aliases.back(db)};
}

}  // namespace

namespace {

/// One device with one stream. Autograd asks for these from torch 2.6 on.
struct Guard : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return device_type; }
  c10::Device exchangeDevice(c10::Device) const override { return only.device(); }
  c10::Device getDevice() const override { return only.device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return only; }
  c10::Stream getDefaultStream(c10::Device) const override { return only; }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return only; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}

  const c10::Stream only{c10::Stream::DEFAULT, {device_type, 0}};
};

#ifdef HOOKS
struct Hooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};
const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();
#endif

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", [](const Tensor& t, at::IntArrayRef size, at::IntArrayRef stride) {
    return at::native::as_strided_tensorimpl(t, size, stride);
  });
  m.impl("_copy_from", copy_from);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

TORCH_LIBRARY(stand_in, m) {
  m.def("counts() -> int[]", [] { return std::vector<int64_t>{to_host, to_device}; });
  m.def("reset() -> ()", [] { to_host = to_device = 0; });
  m.def("peek(Tensor t) -> float",
        [](const Tensor& t) { return static_cast<double>(*static_cast<const float*>(t.data_ptr())); });
}
