#include "ops/groups.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "kernels/convert.h"

namespace orthobatch {
namespace {

struct Groups {
  std::mutex mutex;
  int64_t last = 0;
  std::map<int64_t, Collectives*> all;
  std::map<int64_t, std::shared_ptr<Collectives>> kept;  // those of add_group
};
Groups& groups() {
  static Groups* const all = new Groups;  // never destroyed: groups may outlive main
  return *all;
}

}  // namespace

Collectives::Collectives() {
  const std::lock_guard<std::mutex> lock(groups().mutex);
  number_ = ++groups().last;
  groups().all[number_] = this;
}

Collectives::~Collectives() {
  const std::lock_guard<std::mutex> lock(groups().mutex);
  groups().all.erase(number_);
}

namespace ops {
namespace {

using core::Vector;

void append(Vector& packed, const Vector& part) {
  packed.insert(packed.end(), part.begin(), part.end());
}

/// Takes the next values.
const double* take(const double* from, Vector& part) {
  std::copy_n(from, part.size(), part.begin());
  return from + part.size();
}

/// One half of symmetric blocks, row by row.
void append_lower(Vector& packed, const core::BlockMatrix& symmetric) {
  for (int64_t b = 0; b < symmetric.count(); ++b)
    for (int64_t i = 0, width = symmetric.width(b); i < width; ++i) {
      const double* row = symmetric.data(b) + i * width;
      packed.insert(packed.end(), row, row + i + 1);
    }
}
void take_lower(const double* from, core::BlockMatrix& symmetric) {
  for (int64_t b = 0; b < symmetric.count(); ++b)
    for (int64_t i = 0, width = symmetric.width(b); i < width; ++i)
      for (int64_t j = 0; j <= i; ++j, ++from) {
        double* block = symmetric.data(b);
        block[i * width + j] = block[j * width + i] = *from;
      }
}

class Foreign : public Collectives {
 public:
  Foreign(int64_t rank, int64_t size, GatherFunction gather, SumFunction sum)
      : rank_(rank), size_(size), gather_(gather), sum_(sum) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  std::vector<Tensor> gather(const Tensor& t) override {
    const Tensor own = t.contiguous();
    const Tensor all = at::empty({size_, own.numel()}, own.options());
    check(gather_(own.data_ptr<double>(), own.numel(), all.data_ptr<double>()));
    return all.unbind(0);
  }
  void sum(Tensor& t) override { check(sum_(t.data_ptr<double>(), t.numel())); }

 private:
  static void check(const char* error) {
    TORCH_CHECK(!error, "statistics of several processes: ", error);
  }

  int64_t rank_, size_;
  GatherFunction gather_;
  SumFunction sum_;
};

}  // namespace

std::shared_ptr<Collectives> group_of(const KnownLayer& layer) {
  const std::lock_guard<std::mutex> lock(groups().mutex);
  const auto found = groups().all.find(layer.group);
  const auto group = found == groups().all.end() ? nullptr : found->second->weak_from_this().lock();
  TORCH_CHECK(group, layer.who, ": expected its group of processes, but that is gone");
  return group;
}

core::Statistics merge_processes(Collectives& group, const core::Statistics& own) {
  Vector packed = {own.samples};
  append(packed, own.mean);
  append_lower(packed, own.covariance);
  std::vector<core::Statistics> parts;
  bool any = false;
  for (const Tensor& of_process : group.gather(kernels::to_tensor(packed))) {
    core::Statistics part = own;  // for its sizes
    const double* values = of_process.data_ptr<double>();
    part.samples = *values++;
    take_lower(take(values, part.mean), part.covariance);
    any = any || part.samples > 0;
    parts.push_back(std::move(part));
  }
  return any ? core::merge(parts) : own;
}

std::function<core::GradientSums()> sum_over_processes(const std::shared_ptr<Collectives>& group,
                                                       const core::GradientSums& own) {
  Vector packed = own.B.values();
  append(packed, own.sum);
  const Tensor total = kernels::to_tensor(packed);
  return [group, total, out = own, summed = group->begin_sum(total)]() mutable {
    summed();
    take(take(total.data_ptr<double>(), out.B.values()), out.sum);
    return out;
  };
}

int64_t orthobatch_add_group(int64_t rank, int64_t size, GatherFunction gather, SumFunction sum) {
  auto group = std::make_shared<Foreign>(rank, size, gather, sum);
  const std::lock_guard<std::mutex> lock(groups().mutex);
  groups().kept[group->number()] = group;
  return group->number();
}

void orthobatch_remove_group(int64_t number) {
  std::shared_ptr<Collectives> last;  // freed outside the lock
  const std::lock_guard<std::mutex> lock(groups().mutex);
  const auto found = groups().kept.find(number);
  if (found == groups().kept.end()) return;
  last = std::move(found->second);
  groups().kept.erase(found);
}

}  // namespace ops
}  // namespace orthobatch
