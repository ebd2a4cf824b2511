// The deltas of the step under way on one GPU: which rows have them, in device memory, and the numbers by
// which its kernels know matrices.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "gpu/gemm/deltas.h"
#include "ops/deltas.h"
#include "ops/ops.h"

namespace fulmar::gpu {

class StepDeltaRows {
 public:
  explicit StepDeltaRows(const Ops& device) : device_(device) {}

  // Returns the table of a set's changes, in host memory. Fails for kinds that no kernel computes, and for
  // ranks above kMostRank.
  Result<std::vector<DeviceDelta>> table_of(const DeltaSet& deltas);
  // Takes the rows of a step; returns whether there are any. Where there are, rows() has to be copied to the
  // device.
  bool begin(const StepInput& input);
  // Returns the rows to copy, at most one packed and one wanted for each row of the step.
  const std::vector<DeltaRow>& rows() const { return rows_; }
  // Sets where rows() were copied to.
  void placed(const DeltaRow* rows) { device_rows_ = rows; }

  bool empty() const { return rows_.empty(); }
  // Returns the number of a matrix that some row of the step changes; -1: none does.
  int number_of(const Weight& weight) const;
  // Returns the rows that are computed with deltas, of a matrix with this number.
  DeltaRowList list(int number) const;

  static constexpr int64_t kMostRank = 1024;

 private:
  void add(const std::vector<DeltaRows>& ranges);

  const Ops& device_;
  std::unordered_map<const void*, int> known_;  // numbers, by Weight::data
  std::vector<bool> of_wanted_;                 // by number
  std::vector<bool> changed_;                   // in this step, by number
  std::vector<DeltaRow> rows_;                  // packed ones, then wanted ones
  size_t packed_ = 0;
  int64_t most_rank_ = 0;
  const DeltaRow* device_rows_ = nullptr;
};

}  // namespace fulmar::gpu
