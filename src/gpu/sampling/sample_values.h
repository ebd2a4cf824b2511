// What a draw reads: a row's logits, adjusted where its job wants that; the weight of each id; and the best
// of some ids. Device code of sample.cu alone.
#pragma once

#include <cfloat>
#include <climits>

#include "gpu/device/element.h"
#include "gpu/sampling/sample.h"

namespace fulmar::gpu {

constexpr float kDropped = -INFINITY;

__device__ __forceinline__ float clamp_finite(float x) { return fminf(fmaxf(x, -FLT_MAX), FLT_MAX); }

// Values of the ids [begin, end): z[id], not z[id - begin].
struct LogitsPiece {
  const float* z;
  int begin, end;
};

// The logits that a draw reads: an adjusted copy or, where there is nothing to adjust, the model's own. A
// list in shared memory of pieces, in order of ids and without gaps.
struct Values {
  const LogitsPiece* pieces;
  int count;
  bool raw;

  __device__ float tidy(float x) const {
    const float clean = x == x ? clamp_finite(x) : 0.0f;
    return raw ? clean : x;
  }
  __device__ float stored(int i) const {
    const LogitsPiece* piece = pieces;
    while (i >= piece->end) piece++;
    return piece->z[i];
  }
  __device__ float operator[](int i) const { return tidy(stored(i)); }
};

// Calls use(id, value) for this lane's ids of [from, to): where aligned four at a time, with kAhead loads of
// four in flight, and skipping a four whose values are all below the floor.
template <int kAhead = 2, class Use>
__device__ __forceinline__ void each_value(const Values& values, int from, int to, int lane, int lanes,
                                           float floor, const Use& use) {
  for (int piece = 0; piece < values.count; piece++) {
    const float* const z = values.pieces[piece].z;
    const int begin = max(from, values.pieces[piece].begin), end = min(to, values.pieces[piece].end);
    if (begin >= end) continue;
    if (begin % 4 != 0 || end % 4 != 0 || reinterpret_cast<uintptr_t>(z) % sizeof(float4) != 0) {
      for (int i = begin + lane; i < end; i += lanes) use(i, values.tidy(z[i]));
      continue;
    }
    for (int first = begin + 4 * lane; first < end; first += 4 * kAhead * lanes) {
      float4 x[kAhead];
#pragma unroll
      for (int n = 0; n < kAhead; n++) {
        x[n] = *reinterpret_cast<const float4*>(z + min(first + 4 * n * lanes, end - 4));
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
  }
}

constexpr float kLeastExponent = -87.0f, kLeastWeight = 1.7e-38f;  // a lower bound on weights, rounded up

// The weight of each id, computed on access or kept.
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

// Returns the best of the ids [begin, end) after `previous`: larger values first, then lower ids; kDropped
// where there is none. All threads of the block call and get it; `warp_best` has an element per warp.
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

// Returns whether the job draws from the model's unchanged logits; otherwise they are
// adjusted in working memory.
__device__ __forceinline__ bool as_they_are(const SampleJob& job) {
  return job.biases == 0 && job.penalties == 0 && job.banned == 0 && job.mask_words == 0 && job.noise == 0;
}

// Returns a job's logits, and its working memory, in a part.
__device__ __forceinline__ LogitsPiece logits_piece(const VocabularyPart& part, const SampleJob& job) {
  return {part.logits + job.logits_row * part.stride - part.begin, part.begin, part.end};
}
__device__ __forceinline__ float* work_of(const VocabularyPart& part, int64_t job) {
  return part.work + job * part.work_stride - part.begin;
}
__device__ __forceinline__ LogitsPiece work_piece(const VocabularyPart& part, int64_t job) {
  return {work_of(part, job), part.begin, part.end};
}

// Writes the adjusted logits of [begin, end) to z. The whole block calls.
__device__ __forceinline__ void adjust(const SampleJob& job, const SampleLists& lists, const Values& logits,
                                       float* z, int begin, int end) {
  for (int i = begin + threadIdx.x; i < end; i += blockDim.x) z[i] = logits[i];
  __syncthreads();
  // Biases, then penalties; ids are distinct within each.
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
