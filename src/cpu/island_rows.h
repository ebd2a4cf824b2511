// Shared by the fused islands of every version: passes over rows that do all elementwise work at
// once.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/norm_mix.h"
#include "cpu/row_math.h"
#include "cpu/thread_pool.h"
#include "ops/ops.h"

namespace fulmar::cpu {

template <class Body>
void for_rows(ThreadPool& pool, Tensor x, const Body& body) {
  constexpr int64_t kElementsPerTask = 16 * 1024;
  const int64_t grain = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, x.cols));
  pool.parallel_for(x.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) body(t);
  });
}

// Sets x += pending; z = norm(x).
inline void absorb_and_norm(ThreadPool& pool, Tensor x, const Addend& addend, const Norm& norm, Tensor z) {
  const Tensor pending = addend.joined(x);
  for_rows(pool, x, [&](int64_t t) {
    float* row = x.row<float>(t);
    if (!pending.empty()) add_to(row, pending.row<float>(t), x.cols);
    normalise(row, norm.weight.as<float>(), norm.bias.as<float>(), x.cols, kLayerNormEps, z.row<float>(t));
  });
}

// Calls body(t, previous) for every row, with the row before it in its sequence. The carried vector is
// replaced by the sequence's last row as soon as its only reader, the first row, is done.
template <class Body>
void for_shifted_rows(ThreadPool& pool, const Batch& batch, Tensor z, StateField carry, const Body& body) {
  for_rows(pool, z, [&](int64_t t) {
    const int32_t s = batch.sequence_of[t];
    if (t != batch.start[s]) return body(t, z.row<float>(t - 1));
    float* carried = carry.at<float>(batch.slot[s]);
    body(t, carried);
    std::memcpy(carried, z.row<float>(batch.start[s + 1] - 1), static_cast<size_t>(z.cols) * sizeof(float));
  });
  keep_rows(pool, batch, z, carry);
}

inline void activate_rows(ThreadPool& pool, Tensor x, Activation act) {
  for_rows(pool, x, [&](int64_t t) { activate_in_place(x.row<float>(t), nullptr, x.cols, act); });
}

}  // namespace fulmar::cpu
