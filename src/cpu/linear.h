// out = in @ weight^T on the CPU, for one product or several independent ones. Knows nothing of models.
//
// Weights stay in their stored type and are widened in registers; sums are f32. With few rows each output is
// a dot product along `in` (linear_dot.h), memory-bound and read once; with many, a blocked matrix product
// (linear_panel.h, or linear_amx.h). Quantised weights are multiplied as whole numbers for very few rows
// (linear_coded.h), with AVX-512 VNNI for any number; for more rows they are decoded, a part at a time in
// cache. Each file states its order of summation. They, and other instruction sets, differ by rounding only;
// within one path a row's result does not depend on the other rows.
#pragma once

#include <span>

#include "cpu/linear_way.h"
#include "cpu/thread_pool.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar {

// One product. The outputs of tasks that run together must not overlap each other or any input.
struct LinearTask {
  Tensor in;                       // f32 [rows, weight->in]
  const Weight* weight = nullptr;  // [out, in], not transposed; any alignment of its data
  Tensor out;                      // f32 [rows, weight->out]
};

// Computes all products in as few parallel sections as possible: one for few rows, two for many.
void linear_many(ThreadPool& pool, std::span<const LinearTask> tasks, const LinearMode& mode = {});

// Computes out = in @ weight^T; in f32 [rows, weight.in], out f32 [rows, weight.out], of any stride.
void linear(ThreadPool& pool, Tensor in, const Weight& weight, Tensor out, const LinearMode& mode = {});

}  // namespace fulmar
