// Layers synchronised over c10d's Gloo, a process for each rank: the whole batch's output,
// statistics and gradients, and what a rank that dies does to the others.
//
//   gloo FOLDER        for the store's files

#include <orthobatch/orthobatch.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace {

using orthobatch::BatchOrtho2d;
using torch::Tensor;
using Clock = std::chrono::steady_clock;

constexpr auto timeout = std::chrono::seconds(5);

c10::intrusive_ptr<c10d::ProcessGroupGloo> group_of(const std::string& file, int rank, int size) {
  auto store = c10::make_intrusive<c10d::FileStore>(file, size);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

/// A convolution's bias before a layer has no gradient but rounding: what is that small counts as
/// 0.1.
double error(const Tensor& a, const Tensor& b) {
  return ((a - b).norm() / b.norm().clamp_min(0.1)).item<double>();
}

torch::nn::Sequential net_of() {
  torch::manual_seed(2);
  torch::nn::Sequential net(torch::nn::Conv2d(3, 6, 3), BatchOrtho2d(6, "ZCA(1e-5)"),
                            torch::nn::Conv2d(6, 4, 3), torch::nn::ReLU(),
                            BatchOrtho2d(4, "LDL(1e-5)->W->Gamma"), torch::nn::Flatten(),
                            torch::nn::Linear(4 * 16, 5));
  net->to(torch::kDouble);
  return orthobatch::fold_training(net);
}

/// 0 where this rank's part of two steps is that of the whole batch.
int train(const std::string& file, int rank, int size) {
  const auto group = group_of(file, rank, size);
  torch::nn::Sequential whole = net_of(), part = net_of();
  orthobatch::convert_sync(*part, group);
  torch::manual_seed(5);
  const Tensor x = torch::randn({11, 3, 8, 8}, torch::kDouble) + 1,
               h = torch::randn({11, 5}, torch::kDouble);
  std::vector<int64_t> shards(size, 3);  // the last has the rest, or nothing
  shards[size - 1] = size == 4 ? 0 : 11 - 3 * (size - 1);
  shards[0] += 11 - std::accumulate(shards.begin(), shards.end(), int64_t{0});
  double worst = 0;
  for (int step = 0; step < 2; ++step) {
    whole->zero_grad();
    part->zero_grad();
    const Tensor expected = whole->forward(x);
    (expected * h).sum().backward();
    const Tensor y = part->forward(x.split_with_sizes(shards)[rank]);
    (y * h.split_with_sizes(shards)[rank]).sum().backward();
    if (y.numel() > 0) worst = std::max(worst, error(y, expected.split_with_sizes(shards)[rank]));
    for (size_t k = 0; k < part->parameters().size(); ++k) {
      Tensor g = part->parameters()[k].grad().clone();
      std::vector<Tensor> one = {g};
      group->allreduce(one)->wait();
      worst = std::max(worst, error(one[0], whole->parameters()[k].grad()));
    }
    for (size_t k = 0; k < part->buffers().size(); ++k)
      worst = std::max(worst, error(part->buffers()[k].to(torch::kDouble),
                                    whole->buffers()[k].to(torch::kDouble)));
  }
  std::printf("rank %d of %d: %.1e\n", rank, size, worst);
  std::fflush(stdout);
  return worst < 1e-11 ? 0 : 1;
}

/// The last rank ends; 0 where this one is told within the timeout.
int lose(const std::string& file, int rank, int size) {
  const auto group = group_of(file, rank, size);
  BatchOrtho2d layer(orthobatch::BatchOrthoOptions(4, "ZCA(1e-5)").process_group(group));
  layer(torch::randn({5, 4, 3, 3}));
  if (rank == size - 1) _exit(0);
  const auto start = Clock::now();
  try {
    for (int k = 0; k < 3; ++k) layer(torch::randn({5, 4, 3, 3}));
  } catch (const std::exception&) {
    return Clock::now() - start < 2 * timeout ? 0 : 1;
  }
  return 1;
}

using Rank = int (*)(const std::string& file, int rank, int size);

/// A process for each rank, before this one has any threads.
bool run(Rank rank, const std::string& file, int size) {
  std::vector<pid_t> children;
  for (int k = 0; k < size; ++k) {
    const pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
      try {
        torch::set_num_threads(1);
        _exit(rank(file, k, size));
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", k, e.what());
        _exit(1);
      }
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  bool good = true;
  for (const int size : {2, 3, 4}) {
    const std::string file = folder + "/store-" + std::to_string(size);
    unlink(file.c_str());
    good = run(train, file, size) && good;
  }
  unlink((folder + "/store-lost").c_str());
  const bool told = run(lose, folder + "/store-lost", 3);
  std::puts(told ? "a lost rank is noticed" : "a lost rank is not noticed");
  good = good && told;
  std::puts(good ? "all ranks agree" : "a rank does not");
  return good ? 0 : 1;
}
