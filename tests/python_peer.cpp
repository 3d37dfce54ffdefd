// The C++ side of python/tests/test_cpp.py.
//
//   python_peer write FOLDER SPEC …          a layer trained for two steps, with all that it computed, for each pair
//   python_peer read FOLDER SPEC …           a state from Python loaded into a layer; what it evaluates to
//   python_peer run FOLDER                   a scripted net from Python, with the operators linked
//   python_peer fold FOLDER                  a net folded for training, with a state from Python, a step on
//   python_peer time                         microseconds of a forward pass in training, and of backward too

#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>

#include "orthobatch/orthobatch.h"

namespace {

using orthobatch::BatchOrtho2d;

void save(const std::string& path, const std::vector<torch::Tensor>& tensors) {
  torch::save(tensors, path);
}

torch::Tensor sample(int64_t channels) {
  const torch::Tensor mix = torch::eye(channels) + 0.3 * torch::randn({channels, channels});
  return torch::einsum("ij,bjhw->bihw", {mix, torch::randn({16, channels, 6, 6})}) + 0.5;
}

void write_layer(const std::string& folder, const std::string& spec) {
  torch::manual_seed(3);
  BatchOrtho2d layer(8, spec);
  std::vector<torch::Tensor> out;
  for (int step = 0; step < 2; ++step) {
    const torch::Tensor x = sample(8).requires_grad_();
    layer->zero_grad();
    const torch::Tensor z = layer->forward(x);
    z.pow(3).sum().backward();
    out.push_back(x.detach());
    out.push_back(z.detach());
    out.push_back(x.grad());
    for (const torch::Tensor& p : layer->parameters()) out.push_back(p.grad().clone());
  }
  layer->eval();
  out.push_back(layer->forward(out[0]).detach());
  save(folder + "/values.pt", out);
  torch::save(layer, folder + "/state.pt");
}

void read_layer(const std::string& folder, const std::string& spec) {
  BatchOrtho2d layer(8, spec);
  torch::load(layer, folder + "/from_python.pt");
  std::vector<torch::Tensor> x;
  torch::load(x, folder + "/values.pt");
  layer->eval();
  save(folder + "/from_cpp.pt", {layer->forward(x[0]).detach()});
}

void run(const std::string& folder) {
  torch::jit::Module net = torch::jit::load(folder + "/scripted.pt");
  const torch::Tensor x = net.attr("example").toTensor();
  const torch::Tensor trained = net.forward({x}).toTensor();
  trained.square().sum().backward();
  net.eval();
  save(folder + "/ran.pt", {trained.detach(), net.forward({x}).toTensor().detach()});
}

void fold(const std::string& folder) {
  using namespace torch::nn;
  Sequential net(Conv2d(3, 8, 3), ReLU(), BatchOrtho2d(8, "ZCA(1e-5, group_size=3)"),
                 Conv2d(Conv2dOptions(8, 4, 3).padding(1)));
  net = orthobatch::fold_training(net);
  torch::load(net, folder + "/folded.pt");
  const torch::Tensor x = torch::linspace(-1, 1, 4 * 3 * 8 * 8).mul(40).sin().view({4, 3, 8, 8});
  const auto evaluated = [&] {
    net->eval();
    return net->forward(x).detach();
  };
  const torch::Tensor before = evaluated();
  net->train();
  net->forward(x);
  save(folder + "/from_cpp.pt", {before, evaluated()});
  torch::save(net, folder + "/folded_cpp.pt");
}

/// Microseconds, the best of several rounds.
double best(const std::function<void()>& work) {
  for (int k = 0; k < 200; ++k) work();
  double least = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < 100; ++k) work();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count() / 100);
  }
  return least;
}

void time() {
  torch::set_num_threads(1);
  BatchOrtho2d layer(16, "ZCA(1e-5)");
  const torch::Tensor x = torch::randn({8, 16, 4, 4});
  std::printf("%.2f", best([&] { layer->forward(x); }));
  std::printf(" %.2f", best([&] {
                const torch::Tensor z = layer->forward(x);
                z.backward(z.detach());
              }));
  layer->eval();
  std::printf(" %.2f\n", best([&] { layer->forward(x); }));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> a(argv + 1, argv + argc);
  torch::set_num_threads(1);
  try {
    if (a.size() % 2 == 1 && a.size() > 1 && (a[0] == "write" || a[0] == "read")) {
      for (size_t k = 1; k < a.size(); k += 2)
        a[0] == "write" ? write_layer(a[k], a[k + 1]) : read_layer(a[k], a[k + 1]);
      return 0;
    }
    if (a.size() == 2 && a[0] == "run") return run(a[1]), 0;
    if (a.size() == 2 && a[0] == "fold") return fold(a[1]), 0;
    if (a.size() == 1 && a[0] == "time") return time(), 0;
    std::cerr << "python_peer: expected write, read, run, fold or time\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
