#include "train/gradient_sum.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace orthobatch::train {

GradientSum::GradientSum(const std::vector<torch::Tensor>& parameters, ranks::Ranks& ranks,
                         int64_t bucket_bytes)
    : ranks_(ranks), self_(std::make_shared<GradientSum*>(this)) {
  // From the last to the first, as a backward pass makes them.
  std::vector<std::vector<torch::Tensor>> members;
  int64_t bytes = bucket_bytes;
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    TORCH_CHECK(
        p->is_non_overlapping_and_dense() && p->scalar_type() == parameters[0].scalar_type(),
        "GradientSum: expected dense parameters of one type");
    if (bytes >= bucket_bytes) {
      members.emplace_back();
      bytes = 0;
    }
    members.back().push_back(*p);
    bytes += static_cast<int64_t>(p->nbytes());
  }
  for (size_t b = 0; b < members.size(); ++b) {
    int64_t size = 0;
    for (const torch::Tensor& p : members[b]) size += p.numel();
    Bucket bucket;
    bucket.values = torch::zeros({size}, parameters[0].options().requires_grad(false));
    bucket.parameters = static_cast<int64_t>(members[b].size());
    int64_t at = 0;
    for (torch::Tensor& p : members[b]) {
      p.mutable_grad() = bucket.values.as_strided(p.sizes(), p.strides(), at);
      at += p.numel();
      accumulators_.push_back(torch::autograd::impl::grad_accumulator(p));
      accumulators_.back()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [self = self_, b](const torch::autograd::variable_list& outputs,
                            const torch::autograd::variable_list&) {
            if (*self) (*self)->made(b);
            return outputs;
          }));
    }
    buckets_.push_back(std::move(bucket));
  }
}

GradientSum::~GradientSum() { *self_ = nullptr; }

void GradientSum::begin() {
  for (Bucket& bucket : buckets_) {
    bucket.values.zero_();
    bucket.missing = bucket.parameters;
    bucket.sum = nullptr;
  }
  sent_ = 0;
}

void GradientSum::made(size_t bucket) {
  --buckets_[bucket].missing;
  send_those_made();
}

void GradientSum::send_those_made() {
  for (; sent_ < buckets_.size() && buckets_[sent_].missing == 0; ++sent_)
    buckets_[sent_].sum = ranks_.begin_sum(buckets_[sent_].values);
}

void GradientSum::finish() {
  for (Bucket& bucket : buckets_) bucket.missing = 0;  // of parameters that had no part in it
  send_those_made();
  for (Bucket& bucket : buckets_) bucket.sum();
}

}  // namespace orthobatch::train
