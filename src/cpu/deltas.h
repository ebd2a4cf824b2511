// Adapters on the CPU: after the products of a step, adds what deltas change in them (ops/deltas.h).
#pragma once

#include <span>
#include <vector>

#include "base/function_ref.h"
#include "cpu/linear.h"
#include "cpu/thread_pool.h"
#include "ops/deltas.h"

namespace fulmar::cpu {

// The change of one product for one range of its rows.
struct DeltaProduct {
  const MatrixDelta* delta = nullptr;
  const Weight* weight = nullptr;
  Tensor in;   // f32 [rows, in]
  Tensor out;  // f32 [rows, out]: y, to be changed
  float scale = 1;
};

// Returns the changes that a step's deltas make to these products.
std::vector<DeltaProduct> delta_products(std::span<const LinearTask> tasks, const StepDeltas& deltas);

// Makes the changes. take(rows, cols) returns working memory, f32, that stays until this returns.
void add_deltas(ThreadPool& pool, std::span<const DeltaProduct> changes, const LinearMode& mode,
                FunctionRef<Tensor(int64_t rows, int64_t cols)> take);

}  // namespace fulmar::cpu
