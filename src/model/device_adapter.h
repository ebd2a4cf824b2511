// An adapter in the memory of a model's devices, cut as the model's matrices are.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/slice.h"
#include "ops/deltas.h"
#include "ops/ops.h"
#include "tensor/host_delta.h"

namespace fulmar {

// A matrix that a stage has bound: its weight, which may be a slice, and the whole matrix's shape.
struct BoundMatrix {
  Weight weight;
  int64_t out = 0;
  int64_t in = 0;
  WeightRole role = WeightRole::projection;
  Cut cut = Cut::none;
};
using BoundMatrices = std::unordered_map<std::string, BoundMatrix>;  // by official name

// What Model::load_adapter makes. Steps that use it must be over before it is destroyed.
class DeviceAdapter {
 public:
  const DeltaSet& deltas() const { return deltas_; }
  size_t bytes() const;  // of device memory, on all devices

 private:
  friend class Stage;

  // Copies a change of one matrix to the device that has it. Fails where shapes do not fit or memory is
  // short.
  Status add(const HostDelta& delta, const BoundMatrix& matrix, const Slice& slice, Ops& ops);
  Status index(Ops& ops);  // once its changes are there
  Result<Weight> copy(const HostMatrix& matrix, Ops& ops);
  // Copies whole rows [part] of a matrix with `cols` columns, or nothing of none.
  Result<Tensor> copy(std::span<const float> numbers, int64_t cols, const Part& part, Ops& ops);

  DeltaSet deltas_;
  std::vector<Buffer> memory_;
};

// Fails (invalid), naming the matrix, what was found and what was wanted, unless the change fits the matrix
// and can be computed beside it.
Status check_delta(const HostDelta& delta, const BoundMatrix& matrix);

}  // namespace fulmar
