// The batch loader under ThreadSanitizer: epochs taken whole, given up in the middle, and a loader
// destroyed at work. A race ends the program with a report.

#include <cstdio>
#include <cstdlib>

#include "data/batches.h"
#include "rooms.h"

namespace orthobatch {
namespace {

ImageSet noise(int64_t count) {
  ImageSet set;
  set.height = set.width = 12;
  set.channels = 3;
  Random random(1);
  for (int64_t i = 0; i < count * set.image_size(); ++i)
    set.pixels.push_back(static_cast<uint8_t>(random.bits()));
  for (int64_t i = 0; i < count; ++i) set.labels.push_back(static_cast<uint8_t>(i % 10));
  return set;
}

double sum_of(BatchLoader& loader, int64_t batches) {
  double sum = 0;
  for (int64_t i = 0; i < batches; ++i) {
    const std::shared_ptr<Batch> batch = loader.next();
    for (const float v : batch->images) sum += v;
  }
  return sum;
}

bool same_sums() {
  const ImageSet set = noise(600);
  const InputScale scale = measure_scale(set);
  double expected = 0;
  for (const int threads : {1, 2, 5}) {
    BatchLoader loader(set, scale, {2, 2, 20}, 7, threads);
    for (int64_t epoch = 1; epoch <= 10; ++epoch) {
      loader.start(epoch, 40);
      sum_of(loader, epoch % 4);  // then another epoch, while batches of this one are being made
      loader.start(epoch, 32, 3);
    }
    const double sum = sum_of(loader, loader.steps() - 3);
    if (threads == 1) expected = sum;
    if (sum != expected || loader.waited() < 0) return false;
    loader.start(11, 32);  // destroyed with threads at work
  }
  return true;
}

}  // namespace
}  // namespace orthobatch

int main() {
  if (orthobatch::same_sums()) return EXIT_SUCCESS;
  std::fprintf(stderr, "other batches with other threads\n");
  return EXIT_FAILURE;
}
