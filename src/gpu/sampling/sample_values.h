// What a draw goes by: a row's logits, adjusted where its job wants that, what each id weighs, and the first
// of some ids in the order of likelihood. Device code of sample.cu alone.
#pragma once

#include <cfloat>
#include <climits>

#include "gpu/device/element.h"
#include "gpu/sampling/sample.h"

namespace fulmar::gpu {

constexpr float kDropped = -INFINITY;

__device__ __forceinline__ float clamp_finite(float x) { return fminf(fmaxf(x, -FLT_MAX), FLT_MAX); }

// The logits that a draw goes by: a copy that was adjusted, or where nothing is to adjust the model's own.
struct Values {
  const float* z;
  bool raw;

  __device__ float tidy(float x) const {
    const float clean = x == x ? clamp_finite(x) : 0.0f;
    return raw ? clean : x;
  }
  __device__ float operator[](int i) const { return tidy(z[i]); }
};

// use(id, value) for the ids of [begin, end) that fall to one of so many lanes: where memory allows it four
// at a time, kAhead times four asked for before the first is used, and none of four below the floor.
template <int kAhead = 2, class Use>
__device__ __forceinline__ void each_value(const Values& values, int begin, int end, int lane, int lanes,
                                           float floor, const Use& use) {
  if (begin % 4 == 0 && end % 4 == 0 && reinterpret_cast<uintptr_t>(values.z) % sizeof(float4) == 0) {
    for (int first = begin + 4 * lane; first < end; first += 4 * kAhead * lanes) {
      float4 x[kAhead];
#pragma unroll
      for (int n = 0; n < kAhead; n++) {
        x[n] = *reinterpret_cast<const float4*>(values.z + min(first + 4 * n * lanes, end - 4));
      }
#pragma unroll
      for (int n = 0; n < kAhead; n++) {
        const int i = first + 4 * n * lanes;
        if (i >= end || (x[n].x < floor && x[n].y < floor && x[n].z < floor && x[n].w < floor)) continue;
        use(i, values.tidy(x[n].x));
        use(i + 1, values.tidy(x[n].y));
        use(i + 2, values.tidy(x[n].z));
        use(i + 3, values.tidy(x[n].w));
      }
    }
  } else {
    for (int i = begin + lane; i < end; i += lanes) use(i, values[i]);
  }
}

constexpr float kLeastExponent = -87.0f, kLeastWeight = 1.7e-38f;  // what an id weighs at least, rounded up

// What each id weighs: computed wherever it is asked for, or kept.
struct Weights {
  Values values;
  float top, inverse_temperature;
  const float* kept;  // null: computed

  __device__ float operator[](int i) const { return kept != nullptr ? kept[i] : of(values[i]); }
  __device__ float of(float x) const {
    const float weight = __expf(fmaxf((x - top) * inverse_temperature, kLeastExponent));
    return x == kDropped ? 0.0f : weight;
  }
};

struct Best {
  float value = kDropped;
  int id = INT_MAX;

  __device__ void take(const Best& other) {
    if (other.value > value || (other.value == value && other.id < id)) *this = other;
  }
};

// The first of the ids [begin, end) behind `previous` in the order of likelihood: larger values first, then
// lower ids. kDropped where there is none left. All threads of the block get it; `warp_best` has a place for
// each warp.
__device__ __forceinline__ Best find_best(const Values& z, int begin, int end, const Best& previous,
                                          Best* warp_best) {
  Best best;
  each_value(z, begin, end, threadIdx.x, blockDim.x, kDropped, [&](int i, float x) {
    const bool behind = x < previous.value || (x == previous.value && i > previous.id);
    if (behind && x > best.value) best = {x, i};
  });
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    best.take({__shfl_xor_sync(kFullWarp, best.value, offset), __shfl_xor_sync(kFullWarp, best.id, offset)});
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0) warp_best[threadIdx.x / kWarp] = best;
  __syncthreads();
  for (int w = 0; w < blockDim.x / kWarp; w++) best.take(warp_best[w]);
  return best;
}

// The values that the job is drawn from: in working memory where they differ from the model's or will.
__device__ __forceinline__ Values values_of(const SampleJob& job, const float* logits, const float* z) {
  const bool as_they_are =
      job.biases == 0 && job.penalties == 0 && job.banned == 0 && job.mask_words == 0 && job.noise == 0;
  return as_they_are ? Values{logits, true} : Values{z, false};
}

// Leaves in z what the job makes of the logits of [begin, end); the whole block does it.
__device__ __forceinline__ void adjust(const SampleJob& job, const SampleLists& lists, const float* logits,
                                       float* z, int begin, int end) {
  for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const float x = logits[i];
    z[i] = x == x ? clamp_finite(x) : 0.0f;
  }
  __syncthreads();
  // Biases, then penalties: distinct ids within each.
  for (int part = 0; part < 2; part++) {
    const int first = job.changes + (part == 0 ? 0 : job.biases);
    const int count = part == 0 ? job.biases : job.penalties;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const SampleChange change = lists.changes[first + i];
      if (change.token >= begin && change.token < end)
        z[change.token] = clamp_finite(z[change.token] + change.added);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < job.banned; i += blockDim.x) {
    const int32_t id = lists.ids[job.bans + i];
    if (id >= begin && id < end) z[id] = kDropped;
  }
  for (int i = begin + threadIdx.x; job.mask_words > 0 && i < end; i += blockDim.x) {
    const bool allowed = i / 64 < job.mask_words && (lists.masks[job.masks + i / 64] >> (i % 64) & 1) != 0;
    if (!allowed) z[i] = kDropped;
  }
  __syncthreads();
}

}  // namespace fulmar::gpu
