// Radix selection: finds the id, in order of likelihood, at which a count or a mass is reached, digit by
// digit of a sort key, with one thread per value of a digit. Nothing is sorted, and sums are of integers, so
// that the order of addition does not matter. Device code of sample.cu alone.
#pragma once

#include "gpu/sampling/sample_values.h"

namespace fulmar::gpu {

constexpr int kDigitBits = 10, kBins = 1 << kDigitBits;
constexpr int kIdBits = 30, kKeyBits = 2 * kIdBits;
constexpr int kMostListed = 4096;
constexpr double kMassUnits = 0x1p40;  // that a weight of 1 counts as
constexpr uint64_t kNoMassLimit = uint64_t{1} << 63;
constexpr uint32_t kNoCountLimit = 0xffffffffu;

// Returns the sort key of a weight in (0, 1]. Likelier ids have smaller keys: heavier first, then lower ids.
__device__ __forceinline__ uint64_t key_of(float weight, int id) {
  const uint32_t below = __float_as_uint(1.0f) - __float_as_uint(weight);
  return static_cast<uint64_t>(below) << kIdBits | static_cast<uint32_t>(id);
}
__device__ __forceinline__ float weight_of(uint64_t key) {
  return __uint_as_float(__float_as_uint(1.0f) - static_cast<uint32_t>(key >> kIdBits));
}
__device__ __forceinline__ int id_of(uint64_t key) {
  return static_cast<int>(key & ((uint64_t{1} << kIdBits) - 1));
}

// Converts weights, after a power (0: none), to integer masses.
struct Measure {
  double power = 0;

  __device__ float raise(float weight) const {
    return power == 0 ? weight : static_cast<float>(pow(static_cast<double>(weight), power));
  }
  __device__ uint64_t mass(float weight) const {
    return __float2ull_rn(raise(weight) * static_cast<float>(kMassUnits));
  }
};

// A number of ids and their mass.
struct Tally {
  uint32_t count = 0;
  uint64_t mass = 0;

  __device__ bool reaches(const Tally& limit) const { return count >= limit.count || mass >= limit.mass; }
  __device__ Tally operator+(const Tally& other) const { return {count + other.count, mass + other.mass}; }
  __device__ Tally operator-(const Tally& other) const { return {count - other.count, mass - other.mass}; }
};

// The keys that agree from bit `shift` up.
struct KeyRange {
  uint64_t prefix = 0;
  int shift = kKeyBits;
  uint32_t count = 0;  // of these keys, once a digit is known
  Tally before;        // of the likelier ids

  __device__ bool holds(uint64_t key) const { return key >> shift == prefix; }
};

// A tally for each value of a digit. Masses are split into two words: shared memory has no wider atomic add.
struct Bins {
  uint32_t count[kBins], low[kBins], high[kBins];

  __device__ void clear(int bin) { count[bin] = low[bin] = high[bin] = 0; }
  __device__ Tally operator[](int bin) const {
    return {count[bin], static_cast<uint64_t>(high[bin]) << 32 | low[bin]};
  }
  __device__ void add(int bin, const Tally& tally) {
    atomicAdd(&count[bin], tally.count);
    const auto part = static_cast<uint32_t>(tally.mass);
    const bool carry = atomicAdd(&low[bin], part) + part < part;
    const uint32_t rest = static_cast<uint32_t>(tally.mass >> 32) + (carry ? 1 : 0);
    if (rest != 0) atomicAdd(&high[bin], rest);
  }
};

struct SelectMemory {
  Bins bins;
  Tally warp_sum[kWarp];
  KeyRange place;
  uint64_t key;
  uint32_t listed;
};

// What one thread adds to the bins: consecutive ids with equal digits, as flat
// distributions have, are added at once.
struct DigitRun {
  Bins& bins;
  int bin = 0;
  Tally tally;

  __device__ void add(int next, uint64_t mass) {
    if (next != bin) flush();
    bin = next;
    tally = tally + Tally{1, mass};
  }
  __device__ void flush() {
    if (tally.count > 0) bins.add(bin, tally);
    tally = {};
  }
};

// The ids to select from: those of a row that weigh at least `least`, or a list of them. The functions below
// take it by value, since fields in memory that others might write would be reloaded for each id, and are not
// inlined, since each holds the same long loop.
struct Candidates {
  Weights weights;
  int vocab;
  float least, floor;  // values below the floor weigh less than `least`
  uint64_t* list;
  int listed = -1;       // -1: not listed
  uint64_t end = ~0ull;  // only smaller keys

  __device__ Candidates(const Weights& weights, int vocab, float least, uint64_t* list)
      : weights(weights), vocab(vocab), least(least), list(list) {
    // Below some depth all values have the same tiny weight, so there is no floor. Elsewhere it is a margin
    // lower than necessary, by a hundredth of the exponent and two units in the last place, which covers
    // rounding.
    const float below = (logf(least) - 0.01f) / weights.inverse_temperature;
    floor = least > kLeastWeight ? weights.top - fabsf(weights.top) * 2.4e-7f + below : kDropped;
  }

  template <int kAhead = 2, class Use>
  __device__ __forceinline__ void each(const Use& use) const {
    if (listed >= 0) {
      for (int i = threadIdx.x; i < listed; i += kBins) {
        if (list[i] < end) use(list[i]);
      }
      return;
    }
    each_value<kAhead>(weights.values, 0, vocab, threadIdx.x, kBins, floor, [&](int i, float x) {
      const float weight = weights.of(x);
      const uint64_t key = key_of(weight, i);
      if (weight > 0 && weight >= least && key < end) use(key);
    });
  }
};

// Lists the candidates, in any order; returns false where there are too many.
__device__ __noinline__ bool list_candidates(Candidates from, SelectMemory& shared, int& listed) {
  __syncthreads();
  if (threadIdx.x == 0) shared.listed = 0;
  __syncthreads();
  from.each<4>([&](uint64_t key) {
    // One atomic add for the threads that are active here together.
    const unsigned together = __activemask();
    const int lane = threadIdx.x % kWarp, first = __ffs(static_cast<int>(together)) - 1;
    uint32_t at = 0;
    if (lane == first) at = atomicAdd(&shared.listed, static_cast<uint32_t>(__popc(together)));
    at = __shfl_sync(together, at, first) + __popc(together & ((1u << lane) - 1));
    if (at < kMostListed) from.list[at] = key;
  });
  __syncthreads();
  if (shared.listed > kMostListed) return false;
  listed = static_cast<int>(shared.listed);
  return true;
}

__device__ __forceinline__ Tally sum_of_lanes_through(Tally sum) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const Tally other{__shfl_up_sync(kFullWarp, sum.count, offset),
                      __shfl_up_sync(kFullWarp, sum.mass, offset)};
    if (lane >= offset) sum = sum + other;
  }
  return sum;
}

// Returns the inclusive prefix sum over the threads' tallies; `total` becomes the sum of all.
__device__ __forceinline__ Tally sum_through(const Tally& mine, Tally& total, SelectMemory& shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const Tally through = sum_of_lanes_through(mine);
  if (lane == kWarp - 1) shared.warp_sum[warp] = through;
  __syncthreads();
  const Tally warps = sum_of_lanes_through(shared.warp_sum[lane]);
  const auto of_warp = [&](int w) {
    return Tally{__shfl_sync(kFullWarp, warps.count, w), __shfl_sync(kFullWarp, warps.mass, w)};
  };
  total = of_warp(kWarp - 1);
  const Tally before = of_warp(max(warp, 1) - 1);
  return warp > 0 ? through + before : through;
}

__device__ __noinline__ Tally total_of(Candidates from, Measure measure, SelectMemory& shared) {
  Tally mine, total;
  from.each([&](uint64_t key) { mine = mine + Tally{1, measure.mass(weight_of(key))}; });
  __syncthreads();
  sum_through(mine, total, shared);
  return total;
}

// Narrows `place` to the keys that agree from bit `last` up, or to a single one, at which the tally in order
// of likelihood reaches one of the limits (above zero). Returns false where none is reached.
__device__ __noinline__ bool select(Candidates from, Tally limit, int last, Measure measure,
                                    SelectMemory& shared, KeyRange& place) {
  const auto bin = static_cast<int>(threadIdx.x);
  KeyRange at = place;
  while (at.shift > last && at.count != 1) {
    const int shift = at.shift - kDigitBits;
    shared.bins.clear(bin);
    __syncthreads();
    DigitRun run{shared.bins, 0, {}};
    from.each([&](uint64_t key) {
      if (at.holds(key)) run.add(static_cast<int>(key >> shift & (kBins - 1)), measure.mass(weight_of(key)));
    });
    run.flush();
    __syncthreads();
    const Tally mine = shared.bins[bin];
    Tally total;
    const Tally through = at.before + sum_through(mine, total, shared), before = through - mine;
    if (!(at.before + total).reaches(limit)) return false;
    if (through.reaches(limit) && !before.reaches(limit)) {
      shared.place = {at.prefix << kDigitBits | static_cast<uint64_t>(bin), shift, mine.count, before};
    }
    __syncthreads();
    at = shared.place;
  }
  place = at;
  return true;
}

// Returns the key that `place` was narrowed to; where it holds several, their common bits.
__device__ __noinline__ uint64_t key_in(Candidates from, KeyRange place, SelectMemory& shared) {
  if (place.count != 1 || place.shift == 0) return place.prefix << place.shift;
  __syncthreads();
  from.each([&](uint64_t key) {
    if (place.holds(key)) shared.key = key;
  });
  __syncthreads();
  return shared.key;
}

}  // namespace fulmar::gpu
