#include "orthobatch/tools.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/batchnorm.h>

#include "nn/layer.h"
#include "nn/sequential.h"
#include "nn/state.h"
#include "ops/operators.h"

namespace orthobatch {

std::vector<std::pair<std::string, BatchOrthoLayer*>> layers_of(torch::nn::Module& net) {
  std::vector<std::pair<std::string, BatchOrthoLayer*>> out;
  // Without the net itself, which torch only hands out where a shared_ptr owns it.
  for (const auto& item : net.named_modules("", /*include_self=*/false))
    if (auto* layer = dynamic_cast<BatchOrthoLayer*>(item.value().get()))
      out.emplace_back(item.key(), layer);
  return out;
}

std::vector<std::pair<std::string, const BatchOrthoLayer*>> layers_of(
    const torch::nn::Module& net) {
  // named_modules hands out pointers to what a const module may not change.
  const auto layers = layers_of(const_cast<torch::nn::Module&>(net));
  return {layers.begin(), layers.end()};
}

void name_layers(torch::nn::Module& net) {
  for (auto& [name, layer] : layers_of(net)) layer->options.name(name);
}

namespace {

/// A layer in the place of a BatchNorm.
template <size_t D>
bool convert_one(nn::Element& element, const LayerSpec& spec) {
  using Norm = typename nn::Modules<D>::Norm;
  const auto bn = nn::as<typename nn::Modules<D>::BatchNorm::ContainedType>(element.module);
  if (!bn) return false;
  const auto& o = bn->options;
  BatchOrthoOptions options(o.num_features(), spec.with("eps", o.eps()));
  options.momentum(o.momentum()).affine(o.affine()).name(element.name);
  options.track_running_stats(o.track_running_stats());
  Norm layer(options);
  const torch::NoGradGuard no_grad;
  if (bn->running_mean.defined()) {
    layer->to(bn->running_mean.device(), bn->running_mean.scalar_type());
    layer->running_mean.copy_(bn->running_mean);
    layer->num_batches_tracked.copy_(bn->num_batches_tracked);
    if (layer->weight.defined()) layer->weight.copy_(bn->weight);
    nn::take_variances(*layer, bn->running_var);
  }
  layer->share_parameters(bn->weight, bn->bias);
  layer->train(bn->is_training());
  element.module = torch::nn::AnyModule(layer);
  return true;
}

/// The buffers of a layer, to be put back.
std::vector<torch::Tensor> copies_of_buffers(BatchOrthoLayer& layer) {
  std::vector<torch::Tensor> out;
  for (const nn::Entry& e : nn::entries_of(layer))
    if (!e.tensor->requires_grad()) out.push_back(e.tensor->clone());
  return out;
}

/// Runs what is given when it ends, however that is.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> run) : run_(std::move(run)) {}
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd() { run_(); }

 private:
  std::function<void()> run_;
};

}  // namespace

torch::nn::Sequential convert(const torch::nn::Sequential& net, const LayerSpec& spec) {
  TORCH_CHECK(!net.is_empty(), "convert: expected a Sequential, got none");
  torch::nn::Sequential out;
  for (nn::Element element : nn::elements_of(net)) {
    static_cast<void>(convert_one<1>(element, spec) || convert_one<2>(element, spec) ||
                      convert_one<3>(element, spec));
    out->push_back(element.name, std::move(element.module));
  }
  out->train(net->is_training());
  return out;
}

void freeze(torch::nn::Module& net, bool parameters) {
  const auto layers = layers_of(net);
  for (const auto& [name, layer] : layers)
    TORCH_CHECK(layer->running_mean.defined(), "freeze: expected running statistics, but ",
                layer->description(), " keeps none");
  for (const auto& [name, layer] : layers) {
    layer->frozen = true;
    if (!parameters) continue;
    for (torch::Tensor* t : {&layer->weight, &layer->bias, &layer->skew})
      if (t->defined() && t->requires_grad()) {
        t->set_requires_grad(false);
        nn::Access::stopped(*layer).push_back(t);
      }
  }
}

void unfreeze(torch::nn::Module& net) {
  for (const auto& [name, layer] : layers_of(net)) {
    layer->frozen = false;
    for (torch::Tensor* t : nn::Access::stopped(*layer)) t->set_requires_grad(true);
    nn::Access::stopped(*layer).clear();
  }
}

void update_statistics(torch::nn::Module& net, const std::function<void()>& forward) {
  const torch::NoGradGuard no_grad;
  const auto layers = layers_of(net);
  std::vector<std::pair<torch::nn::Module*, bool>> modes;
  for (const auto& m : net.modules(/*include_self=*/false))
    modes.emplace_back(m.get(), m->is_training());
  const bool mode = net.is_training();
  struct Before {
    BatchOrthoLayer* layer;
    c10::optional<double> momentum;
    bool frozen;
    std::vector<torch::Tensor> buffers;
  };
  std::vector<Before> before;
  for (const auto& [name, layer] : layers)
    if (layer->running_mean.defined())
      before.push_back(
          {layer, layer->options.momentum(), layer->frozen, copies_of_buffers(*layer)});
  const AtEnd restore([&] {
    for (const Before& b : before) {
      b.layer->options.momentum(b.momentum);
      b.layer->frozen = b.frozen;
    }
    net.train(mode);
    for (const auto& [module, training] : modes) module->train(training);
  });
  net.eval();
  for (const Before& b : before) {
    b.layer->reset_running_stats();
    b.layer->options.momentum(c10::nullopt);
    b.layer->frozen = false;
    dynamic_cast<torch::nn::Module&>(*b.layer).train();
  }
  try {
    forward();
  } catch (...) {
    for (const Before& b : before) {
      size_t k = 0;
      for (const nn::Entry& e : nn::entries_of(*b.layer))
        if (!e.tensor->requires_grad()) e.tensor->copy_(b.buffers[k++]);
    }
    throw;
  }
}

void RecentCalls::remember(std::function<void()> call) {
  if (batches_ == 0) return;
  if (calls_.size() == batches_) calls_.pop_front();
  calls_.push_back(std::move(call));
  changed_ = true;
}

void RecentCalls::update(torch::nn::Module& net) {
  if (!changed_) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  const AtEnd restore([&] { generator.set_state(state); });
  update_statistics(net, [&] {
    for (const auto& call : calls_) call();
  });
  changed_ = false;
}

void convert_sync(torch::nn::Module& net, const ProcessGroup& group) {
  const auto layers = layers_of(net);
  if (group) {
    std::string all;
    for (const auto& [name, layer] : layers) {
      const BatchOrthoOptions& o = layer->options;
      all += name + " " + to_string(o.spec()) + " " + std::to_string(o.num_features()) + " " +
             std::to_string(o.sample_stride()) + "\n";
    }
    // Of one size whatever a process has: collectives of unequal sizes end it.
    const torch::Tensor own = torch::tensor(
        {static_cast<int64_t>(layers.size()), static_cast<int64_t>(std::hash<std::string>()(all))});
    const std::vector<torch::Tensor> others = group->gather(own);
    for (size_t rank = 0; rank < others.size(); ++rank)
      TORCH_CHECK(others[rank].equal(others[0]),
                  "convert_sync: expected the same layers in all processes, but rank ", rank,
                  " has others than rank 0 (", others[rank][0].item<int64_t>(), " layers against ",
                  others[0][0].item<int64_t>(), ")");
  }
  for (const auto& [name, layer] : layers) layer->options.process_group(group);
}

}  // namespace orthobatch
