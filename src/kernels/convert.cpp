#include "kernels/convert.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace orthobatch::kernels {

Vector to_vector(const at::Tensor& t) {
  if (!t.defined()) return {};
  // The type is changed on the host: not every device has double.
  const at::Tensor c = t.detach().to(at::kCPU).to(at::kDouble).contiguous();
  return {c.data_ptr<double>(), c.data_ptr<double>() + c.numel()};
}

std::vector<Vector> to_vectors(const std::vector<at::Tensor>& tensors) {
  std::vector<Vector> out;
  std::vector<at::Tensor> elsewhere;
  for (const at::Tensor& t : tensors)
    if (t.defined() && !t.is_cpu())
      elsewhere.push_back(t.detach().to(exact_type(t.device())).reshape({-1}));
  const Vector values = elsewhere.empty() ? Vector() : to_vector(at::cat(elsewhere));
  auto from = values.begin();
  for (const at::Tensor& t : tensors) {
    if (!t.defined() || t.is_cpu()) {
      out.push_back(to_vector(t));
      continue;
    }
    out.emplace_back(from, from + t.numel());
    from += t.numel();
  }
  return out;
}

at::ScalarType exact_type(const at::Device& device) {
  if (device.is_cpu() || device.is_cuda()) return at::kDouble;
  static std::mutex mutex;
  static auto* const known = new std::map<at::DeviceType, at::ScalarType>;  // outlives all threads
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known->find(device.type());
  if (found != known->end()) return found->second;
  at::ScalarType type = at::kDouble;
  try {
    at::empty({1}, at::TensorOptions(at::kDouble).device(device));
  } catch (const c10::Error&) {  // how such devices say it
    type = at::kFloat;
  }
  return (*known)[device.type()] = type;
}

std::vector<at::Tensor> to_device(const std::vector<const Vector*>& vectors,
                                  const at::Device& device) {
  std::vector<int64_t> sizes;
  Vector all;
  for (const Vector* v : vectors) {
    sizes.push_back(static_cast<int64_t>(v->size()));
    all.insert(all.end(), v->begin(), v->end());
  }
  return to_tensor(all).to(exact_type(device)).to(device).split_with_sizes(sizes);
}

Matrix to_matrix(const at::Tensor& t) {
  const Vector values = to_vector(t);
  Matrix m(t.size(0));
  std::copy(values.begin(), values.end(), m.data());
  return m;
}

at::Tensor to_tensor(const Vector& v) { return at::tensor(v, at::kDouble); }

at::Tensor to_tensor(const Matrix& m) {
  at::Tensor out = at::empty({m.rows(), m.cols()}, at::kDouble);
  std::copy_n(m.data(), m.rows() * m.cols(), out.data_ptr<double>());
  return out;
}

}  // namespace orthobatch::kernels
