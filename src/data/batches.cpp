#include "data/batches.h"

#include <chrono>
#include <numeric>
#include <stdexcept>

namespace orthobatch::data {
namespace {

constexpr int64_t made_ahead = 4;
constexpr uint64_t order_stream = 0x6f72646572;  // "order": apart from every image's index

}  // namespace

std::vector<uint32_t> epoch_order(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  Random random(seed + order_stream, epoch, 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

BatchLoader::BatchLoader(const ImageSet& images, const InputScale& scale,
                         const Augmentation& augmentation, uint64_t seed, int threads,
                         base::Share share)
    : images_(images), scale_(scale), augmentation_(augmentation), seed_(seed), share_(share) {
  if (threads < 1) throw std::invalid_argument("BatchLoader: at least one thread");
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void BatchLoader::start(int64_t epoch, int64_t batch, int64_t first) {
  if (batch < 1 || batch > images_.count())
    throw std::invalid_argument("a batch of " + std::to_string(batch) + " images from a set of " +
                                std::to_string(images_.count()));
  std::vector<uint32_t> order = epoch_order(images_.count(), seed_, epoch);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    steps_ = claimed_ = 0;  // nothing more to claim of the old epoch
    ready_.wait(lock, [this] { return working_ == 0; });
    order_ = std::move(order);
    epoch_ = epoch;
    batch_ = batch;
    steps_ = images_.count() / batch;
    made_.clear();
    claimed_ = taken_ = first;
    waited_ = 0;
  }
  room_.notify_all();
}

std::shared_ptr<Batch> BatchLoader::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (taken_ >= steps_) throw std::logic_error("BatchLoader: the epoch has no more batches");
  if (made_.count(taken_) == 0) {
    const auto before = std::chrono::steady_clock::now();
    ready_.wait(lock, [this] { return failure_ || made_.count(taken_) > 0; });
    if (failure_) std::rethrow_exception(failure_);
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  }
  auto node = made_.extract(taken_++);
  lock.unlock();
  room_.notify_all();
  return std::move(node.mapped());
}

void BatchLoader::work() {
  Augmenter augment(images_, scale_, augmentation_, seed_);
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    room_.wait(lock,
               [this] { return stop_ || (claimed_ < steps_ && claimed_ < taken_ + made_ahead); });
    if (stop_) return;
    const int64_t number = claimed_++;
    ++working_;
    lock.unlock();
    auto batch = std::make_shared<Batch>();
    std::exception_ptr failure;
    try {
      fill(*batch, number, augment);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --working_;
    if (failure) failure_ = failure;
    made_[number] = std::move(batch);
    ready_.notify_all();
  }
}

void BatchLoader::fill(Batch& batch, int64_t number, Augmenter& augment) const {
  const int64_t size = images_.image_size();
  const int64_t count = share_.size(batch_);
  const uint32_t* order = order_.data() + number * batch_ + share_.first(batch_);
  batch.images.resize(count * size);
  batch.labels.resize(count);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = order[i];
    batch.labels[i] = images_.labels[index];
    augment(epoch_, index, batch.images.data() + i * size);
  }
}

}  // namespace orthobatch::data
