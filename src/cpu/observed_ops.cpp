// The CPU's Ops with an observer of its products: what a model feeds each of its matrices.
#include <unordered_map>
#include <utility>

#include "cpu/cpu_backend.h"

namespace fulmar {

namespace {

class ObservedOps final : public CpuOps {
 public:
  ObservedOps(const CpuOptions& options, ProductObserver observer)
      : CpuOps(options), observer_(std::move(observer)) {}

  Result<Weight> import_weight(const HostMatrix& matrix, WeightRole role) override {
    FULMAR_ASSIGN(const Weight weight, CpuOps::import_weight(matrix, role));
    source_[weight.data] = matrix.data;
    return weight;
  }
  void products(std::span<const LinearTask> tasks) override {
    for (const LinearTask& task : tasks) observer_(source_.at(task.weight->data), task.in);
    CpuOps::products(tasks);
  }

 private:
  const ProductObserver observer_;
  std::unordered_map<const void*, const std::byte*> source_;  // of imported weights
};

}  // namespace

std::unique_ptr<Ops> make_observed_cpu_ops(const CpuOptions& options, ProductObserver observer) {
  return std::make_unique<ObservedOps>(options, std::move(observer));
}

}  // namespace fulmar
