#pragma once
// The nets of the step section.

#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace orthobatch::bench {

/// A net and its optimizer.
struct Contestant {
  Contestant(std::string name, std::function<torch::Tensor(const torch::Tensor&)> forward,
             const std::vector<torch::Tensor>& parameters);

  void step(const torch::Tensor& x, const torch::Tensor& y) const;

  std::string name;
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  std::unique_ptr<torch::optim::SGD> optimizer;
};

/// Those of mnist and svhn for images like x.
std::vector<Contestant> digit_contestants(const std::string& data, const torch::Tensor& x);

/// Those of the stack.
std::vector<Contestant> stack_contestants();

}  // namespace orthobatch::bench
