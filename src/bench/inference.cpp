#include "bench/inference.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>

#include "nn/sequential.h"
#include "orthobatch/folded.h"
#include "train/net.h"

namespace orthobatch::bench {
namespace {

// So that a measurement is long against the clock's own time and a switch of threads.
constexpr int64_t images_in_a_row = 256;

torch::nn::Sequential without_layers(const torch::nn::Sequential& net) {
  torch::nn::Sequential out;
  for (const nn::Element& element : nn::elements_of(net))
    if (!nn::as<BatchOrtho2dImpl>(element.module)) out->push_back(element.name, element.module);
  out->eval();
  return out;
}

}  // namespace

const Times* InferenceResult::find(const std::string& name) const {
  for (const Row& row : rows)
    if (row.name == name) return &row.times;
  return nullptr;
}

InferenceResult measure_inference(const std::string& data, int64_t batch, const Session& session) {
  const torch::NoGradGuard no_grad;
  at::set_num_threads(session.threads);
  const ImageShape image = data == "mnist" ? ImageShape{28, 28, 1} : ImageShape{32, 32, 3};
  const auto images = [&](int64_t n) {
    return torch::randn({n, image.channels, image.height, image.width})
        .contiguous(torch::MemoryFormat::ChannelsLast);
  };
  DigitNet net(image, paper_config(data, "ZCA(1e-5,1e12)").net);
  initialize(net, images(64), 0.05);
  net(images(64));  // its statistics
  net->eval();
  torch::nn::Sequential plain = fold(net->as_sequential()),
                        bare = without_layers(net->as_sequential());
  const torch::Tensor x = images(batch);
  const std::vector<std::pair<const char*, std::function<void()>>> nets = {
      {bare_net, [&] { bare->forward(x); }},
      {plain_net_name, [&] { plain->forward(x); }},
      {evaluating_net, [&] { net(x); }}};

  InferenceResult result{data, batch, {}};
  for (const auto& [name, pass] : nets) result.rows.push_back({name, {}});
  const int64_t in_a_row = std::max<int64_t>(1, images_in_a_row / batch);
  std::vector<std::function<void(bool)>> work;
  for (size_t i = 0; i < nets.size(); ++i)
    work.emplace_back([&, i](bool counted) {
      const double start = now();
      for (int64_t k = 0; k < in_a_row; ++k) nets[i].second();
      const double each = 1e3 * (now() - start) / static_cast<double>(in_a_row);
      if (counted) result.rows[i].times.each.push_back(each);
    });
  interleave(work, session, session.repeats, /*warm_up=*/true,
             "inference of the " + data + " net, batch " + std::to_string(batch));
  return result;
}

}  // namespace orthobatch::bench
