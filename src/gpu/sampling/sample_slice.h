// Draws from a row's survey and one slice of it: where the row's values are, its best id, the mass of each
// slice, and the id at a given mass. Device code of sample.cu alone.
#pragma once

#include "gpu/device/ptx.h"
#include "gpu/sampling/sample_values.h"
#include "ops/sampling.h"

namespace fulmar::gpu {

// Warps that scan one slice, in runs of four ids per lane: the same at any block size, so that a row's token
// does not depend on it.
constexpr int kSliceWarps = 4, kRun = 4 * kWarp, kSmallDrawThreads = kSliceWarps * kWarp;

// Shared memory of a draw from surveys and one slice.
struct SurveyedShared {
  SampleSlice slice[kSampleSlices];
  LogitsPiece values[kMostParts], logits[kMostParts], work;
  double slice_sum[kSampleSlices];
  double warp_sum[kSliceWarps];
  int chosen;
  int reached, alive;  // ids: the first at which the mass is reached; the last with any weight
};

// Returns the number of ids of a slice: a multiple of four, so that slices are aligned to four values.
__device__ inline int slice_length(int vocab) { return static_cast<int>(survey_slice_length(vocab)); }

__device__ inline double warp_total(double sum) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  return sum;
}

// Copies what the job needs of the parts to shared memory: surveys, and addresses of values. A vocabulary may
// have fewer slices than kSampleSlices.
__device__ inline void list_parts(const SampleJob& job, const VocabularyParts& parts, float* work, int vocab,
                                  SurveyedShared& shared) {
  const int thread = static_cast<int>(threadIdx.x), first = thread * slice_length(vocab);
  if (thread < kSampleSlices) {
    SampleSlice slice{kDropped, INT_MAX, 0.0, {}};
    for (int i = 0; i < kSampleGroups; i++) slice.group_best[i] = kDropped;
    for (int p = 0; p < parts.count; p++) {
      const VocabularyPart& part = parts.part[p];
      if (first >= part.begin && first < part.end) {
        slice = part.slices[static_cast<int64_t>(blockIdx.x) * kSampleSlices + thread];
      }
    }
    shared.slice[thread] = slice;
  }
  if (thread < parts.count) {
    shared.logits[thread] = logits_piece(parts.part[thread], job);
    shared.values[thread] =
        as_they_are(job) ? shared.logits[thread] : work_piece(parts.part[thread], blockIdx.x);
  }
  if (thread == 0) shared.work = {work, 0, vocab};
  __syncthreads();
}

// Returns the row's best id; shared.slice_sum becomes the sums of each slice relative to it.
__device__ inline Best combine(const SampleJob& job, SurveyedShared& shared) {
  Best best;
  for (int s = 0; s < kSampleSlices; s++) best.take({shared.slice[s].best, shared.slice[s].best_id});
  if (threadIdx.x < kSampleSlices) {
    const SampleSlice& slice = shared.slice[threadIdx.x];
    const double below = static_cast<double>(slice.best - best.value) * job.inverse_temperature;
    shared.slice_sum[threadIdx.x] = slice.best == kDropped ? 0.0 : slice.sum * exp(below);
  }
  __syncthreads();
  return best;
}

__device__ inline double slices_total(const SurveyedShared& shared) {
  double total = 0;
  for (int s = 0; s < kSampleSlices; s++) total += shared.slice_sum[s];
  return total;
}

// The weights of one slice's ids, whose values are in one piece, or of kept ones.
struct SliceWeights {
  const Weights& weights;
  const float* stored;  // [id]
  bool by_fours;        // aligned to four from the slice's first id on

  __device__ SliceWeights(const Weights& weights, int begin) : weights(weights), stored(weights.kept) {
    const LogitsPiece* piece = weights.values.pieces;
    while (stored == nullptr && begin >= piece->end) piece++;
    if (stored == nullptr) stored = piece->z;
    by_fours = reinterpret_cast<uintptr_t>(stored + begin) % sizeof(float4) == 0;
  }
  __device__ float of(float value) const {
    return weights.kept != nullptr ? value : weights.of(weights.values.tidy(value));
  }
  // Returns the weights of the ids first .. first + 3; those from `end` on weigh nothing.
  __device__ float4 four(int first, int end) const {
    if (by_fours && first + 4 <= end) {
      const float4 x = *reinterpret_cast<const float4*>(stored + first);
      return {of(x.x), of(x.y), of(x.z), of(x.w)};
    }
    const auto one = [&](int id) { return id < end ? of(stored[id]) : 0.0f; };
    return {one(first), one(first + 1), one(first + 2), one(first + 3)};
  }
};

__device__ inline double sum_of(const float4& four) {
  return (static_cast<double>(four.x) + four.y) + (static_cast<double>(four.z) + four.w);
}

__device__ inline double sum_of_lanes_before(double mine) {
  const int lane = threadIdx.x % kWarp;
  double through = mine;
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const double other = __shfl_up_sync(kFullWarp, through, offset);
    if (lane >= offset) through += other;
  }
  return through - mine;
}

// Returns the first of four ids at which `remaining` of the mass is reached, or INT_MAX; `alive` becomes the
// last of them with any weight.
__device__ inline int reached_among(const float4& four, int first, double remaining, int& alive) {
  const float weight[4] = {four.x, four.y, four.z, four.w};
  int reached = INT_MAX;
#pragma unroll
  for (int n = 0; n < 4; n++) {
    if (weight[n] <= 0) continue;
    alive = first + n;
    if (reached == INT_MAX && remaining < weight[n]) reached = first + n;
    remaining -= weight[n];
  }
  return reached;
}

// Finds the id at mass `remaining` of the slice [begin, end), in order of ids; each warp scans a range.
__device__ inline void draw_within(const Weights& weights, int begin, int end, double remaining,
                                   SurveyedShared& shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int range = (end - begin + kSliceWarps * kRun - 1) / (kSliceWarps * kRun) * kRun;
  const int first = warp < kSliceWarps ? min(begin + warp * range, end) : end, last = min(first + range, end);
  const SliceWeights slice(weights, begin);
  double sum = 0;
#pragma unroll 4
  for (int i = first + 4 * lane; i < last; i += kRun) sum += sum_of(slice.four(i, last));
  sum = warp_total(sum);
  if (lane == 0 && warp < kSliceWarps) shared.warp_sum[warp] = sum;
  if (threadIdx.x == 0) shared.reached = INT_MAX, shared.alive = begin;
  __syncthreads();
  for (int w = 0; w < min(warp, kSliceWarps); w++) remaining -= shared.warp_sum[w];
  int reached = INT_MAX, alive = begin;
  for (int run = first; run < last && __ballot_sync(kFullWarp, reached < INT_MAX) == 0; run += kRun) {
    const float4 four = slice.four(run + 4 * lane, last);
    const double own = sum_of(four);
    reached = reached_among(four, run + 4 * lane, remaining - sum_of_lanes_before(own), alive);
    remaining -= warp_total(own);
  }
  if (reached < INT_MAX) atomicMin(&shared.reached, reached);
  if (alive > begin) atomicMax(&shared.alive, alive);
  __syncthreads();
  // Rounding may leave a little over: then the last id with any weight.
  if (threadIdx.x == 0) shared.chosen = shared.reached < INT_MAX ? shared.reached : shared.alive;
}

// Finds the id at mass `remaining` of the whole row, in order of ids.
__device__ inline void draw_uncut(const Weights& weights, int vocab, double remaining,
                                  SurveyedShared& shared) {
  int slice = 0;
  while (slice + 1 < kSampleSlices && remaining >= shared.slice_sum[slice])
    remaining -= shared.slice_sum[slice++];
  while (slice > 0 && shared.slice_sum[slice] <= 0) slice--;
  const int begin = min(vocab, slice * slice_length(vocab));
  draw_within(weights, begin, min(vocab, begin + slice_length(vocab)), remaining, shared);
}

}  // namespace fulmar::gpu
