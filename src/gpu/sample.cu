// Draws tokens on the device by the rules of ops/sampling.h: adjusted weights in one pass, then the whole
// mass, or the likeliest ids found by a histogram of their magnitudes and sorted. A block per token.
#include <cfloat>

#include "gpu/element.h"
#include "gpu/ptx.h"
#include "gpu/sample.h"
#include "ops/philox.h"

namespace fulmar::gpu {

namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMostCandidates = 4096;
constexpr int kBins = 1024;    // of magnitudes from 1 down, eight to a power of two
constexpr int kBinShift = 20;  // of a float's bits: exponent and three bits of the fraction
constexpr double kMassUnit = 1.0 / (1ull << 40);
constexpr float kDropped = -INFINITY;

struct Shared {
  double warp_sum[kWarps];
  float warp_max[kWarps];
  int warp_index[kWarps];
  uint32_t count[kBins];
  unsigned long long mass[kBins];  // in kMassUnit: integers add up to the same in any order
  int candidates, cut_bin, chosen;
};

__device__ uint32_t bin_of(float weight) {
  const uint32_t below = (__float_as_uint(1.0f) >> kBinShift) - (__float_as_uint(weight) >> kBinShift);
  return below < kBins ? below : kBins - 1;
}

__device__ double draw_unit(const SampleJob& job) {
  const PhiloxBlock random = philox(job.seed, job.position);
  const uint64_t bits = (static_cast<uint64_t>(random.x[0]) << 20) ^ (random.x[1] >> 12);
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

__device__ float clamp_finite(float x) { return fminf(fmaxf(x, -FLT_MAX), FLT_MAX); }

// z into working memory, adjusted; then its largest value and the lowest id that has it.
__device__ void adjust(const SampleJob& job, const SampleChange* changes, const int32_t* bans,
                       const float* logits, float* z, int vocab, Shared& shared, float& top, int& top_id) {
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    const float x = logits[i];
    z[i] = x == x ? clamp_finite(x) : 0.0f;
  }
  __syncthreads();
  // Biases, then penalties: distinct ids within each.
  for (int part = 0; part < 2; part++) {
    const int first = job.changes + (part == 0 ? 0 : job.biases);
    const int count = part == 0 ? job.biases : job.penalties;
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const SampleChange change = changes[first + i];
      if (change.token >= 0 && change.token < vocab)
        z[change.token] = clamp_finite(z[change.token] + change.added);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < job.banned; i += kThreads) {
    const int32_t id = bans[job.bans + i];
    if (id >= 0 && id < vocab) z[id] = kDropped;
  }
  __syncthreads();
  float best = kDropped;
  int best_id = vocab;
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    if (z[i] > best) best = z[i], best_id = i;
  }
  const auto take = [&](float other, int other_id) {
    if (other > best || (other == best && other_id < best_id)) best = other, best_id = other_id;
  };
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(kFullWarp, best, offset);
    const int other_id = __shfl_xor_sync(kFullWarp, best_id, offset);
    take(other, other_id);
  }
  if (threadIdx.x % kWarp == 0)
    shared.warp_max[threadIdx.x / kWarp] = best, shared.warp_index[threadIdx.x / kWarp] = best_id;
  __syncthreads();
  for (int w = 0; w < kWarps; w++) take(shared.warp_max[w], shared.warp_index[w]);
  top = best;
  top_id = best == kDropped ? 0 : best_id;
}

// Weights in place of z, and per warp the sum of its share of ids, which lie side by side.
__device__ double weigh(float* z, int vocab, float top, float inverse_temperature, Shared& shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, each = (vocab + kWarps - 1) / kWarps;
  double sum = 0;
  for (int i = warp * each + lane; i < min(vocab, (warp + 1) * each); i += kWarp) {
    const float weight = z[i] == kDropped ? 0.0f : __expf(fmaxf((z[i] - top) * inverse_temperature, -87.0f));
    z[i] = weight;
    sum += weight;
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  if (lane == 0) shared.warp_sum[warp] = sum;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < kWarps; w++) total += shared.warp_sum[w];
  return total;
}

// Drops weights below min_p, without which the sums per warp become those of what is kept; returns their sum.
__device__ double keep_likely(float* weights, int vocab, float min_p, Shared& shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, each = (vocab + kWarps - 1) / kWarps;
  double sum = 0;
  for (int i = warp * each + lane; i < min(vocab, (warp + 1) * each); i += kWarp) {
    if (weights[i] < min_p) weights[i] = 0.0f;
    sum += weights[i];
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  if (lane == 0) shared.warp_sum[warp] = sum;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < kWarps; w++) total += shared.warp_sum[w];
  return total;
}

// The id at `left` of the mass, ids in order; the first warp does it.
__device__ void draw_uncut(const float* weights, int vocab, double left, Shared& shared) {
  if (threadIdx.x >= kWarp) return;
  const int lane = threadIdx.x, each = (vocab + kWarps - 1) / kWarps;
  int warp = 0;
  while (warp + 1 < kWarps && left >= shared.warp_sum[warp]) left -= shared.warp_sum[warp++];
  while (warp > 0 && shared.warp_sum[warp] <= 0) warp--;
  int last = 0;
  for (int first = warp * each; first < min(vocab, (warp + 1) * each); first += kWarp) {
    const int id = first + lane;
    const double weight = id < min(vocab, (warp + 1) * each) ? weights[id] : 0.0;
    double sum = weight;
#pragma unroll
    for (int offset = 1; offset < kWarp; offset *= 2) {
      const double other = __shfl_up_sync(kFullWarp, sum, offset);
      if (lane >= offset) sum += other;
    }
    const unsigned reached = __ballot_sync(kFullWarp, weight > 0 && sum > left);
    const unsigned alive = __ballot_sync(kFullWarp, weight > 0);
    if (reached != 0) {
      if (lane == 0) shared.chosen = first + __ffs(static_cast<int>(reached)) - 1;
      return;
    }
    if (alive != 0) last = first + 31 - __clz(static_cast<int>(alive));
    left -= __shfl_sync(kFullWarp, sum, kWarp - 1);
  }
  if (lane == 0) shared.chosen = last;
}

// Collects the ids that the limits can keep, unordered: all bins from the heaviest down to the one in which a
// limit binds. False where there are more than fit.
__device__ bool collect(const SampleJob& job, const float* weights, int vocab, double total,
                        uint64_t* candidates, Shared& shared) {
  for (int i = threadIdx.x; i < kBins; i += kThreads) shared.count[i] = 0, shared.mass[i] = 0;
  if (threadIdx.x == 0) shared.candidates = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    const float weight = weights[i];
    if (weight <= 0 || weight < job.min_p) continue;
    const uint32_t bin = bin_of(weight);
    atomicAdd(&shared.count[bin], 1u);
    atomicAdd(&shared.mass[bin], static_cast<unsigned long long>(static_cast<double>(weight) / kMassUnit));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const double wanted = job.top_p < 1.0f ? job.top_p * total : INFINITY;
    uint64_t count = 0;
    double mass = 0;
    int bin = 0;
    for (; bin < kBins; bin++) {
      count += shared.count[bin];
      mass += static_cast<double>(shared.mass[bin]) * kMassUnit;
      // The units are cut off, so the mass is a little too small and the candidates enough.
      if ((job.top_k > 0 && count >= static_cast<uint64_t>(job.top_k)) || mass >= wanted) break;
    }
    shared.cut_bin = bin;
    shared.candidates = count > kMostCandidates ? -1 : 0;
  }
  __syncthreads();
  if (shared.candidates < 0) return false;
  for (int i = threadIdx.x; i < vocab; i += kThreads) {
    const float weight = weights[i];
    if (weight <= 0 || weight < job.min_p || static_cast<int>(bin_of(weight)) > shared.cut_bin) continue;
    const int at = atomicAdd(&shared.candidates, 1);
    // Heavier first, then the lower id: one comparison of integers.
    candidates[at] =
        static_cast<uint64_t>(__float_as_uint(weight)) << 32 | (0xffffffffu - static_cast<uint32_t>(i));
  }
  __syncthreads();
  return true;
}

__device__ void sort_descending(uint64_t* values, int count) {
  int size = 2;
  while (size < count) size *= 2;
  for (int i = count + threadIdx.x; i < size; i += kThreads) values[i] = 0;
  __syncthreads();
  for (int length = 2; length <= size; length *= 2) {
    for (int distance = length / 2; distance > 0; distance /= 2) {
      for (int i = threadIdx.x; i < size / 2; i += kThreads) {
        const int low = i / distance * 2 * distance + i % distance, high = low + distance;
        const bool descending = (low & length) == 0;
        const uint64_t a = values[low], b = values[high];
        if ((a < b) == descending) values[low] = b, values[high] = a;
      }
      __syncthreads();
    }
  }
}

__device__ float weight_of(uint64_t candidate) {
  return __uint_as_float(static_cast<uint32_t>(candidate >> 32));
}
__device__ int id_of(uint64_t candidate) {
  return static_cast<int>(0xffffffffu - static_cast<uint32_t>(candidate));
}

// Steps 3 and 4 over the sorted candidates, one thread: few are walked over before a limit binds.
__device__ int draw_cut(const SampleJob& job, const uint64_t* candidates, int count, int vocab, double total,
                        double unit) {
  const int64_t k = job.top_k <= 0 ? vocab : job.top_k;
  const double wanted = job.top_p < 1.0f ? job.top_p * total : INFINITY;
  double above = 0;
  int begin = 0, end = 0;
  double share = 1;
  while (begin < count) {
    const float weight = weight_of(candidates[begin]);
    end = begin;
    while (end < count && weight_of(candidates[end]) == weight) end++;
    const double ties = end - begin;
    if (end >= k || above + ties * weight >= wanted) {
      const double by_mass = (wanted - above) / (weight * ties);
      const double by_count = static_cast<double>(k - min(k, static_cast<int64_t>(begin))) / ties;
      share = fmin(fmax(fmin(by_mass, by_count), 0.0), 1.0);
      break;
    }
    above += ties * weight;
    begin = end;
  }
  // Candidates before `begin` count whole, those up to `end` by their share.
  const float tied = begin < count ? weight_of(candidates[begin]) * static_cast<float>(share) : 0.0f;
  double left = unit * (above + static_cast<double>(end - begin) * tied);
  for (int i = 0; i < end; i++) {
    const double weight = i < begin ? weight_of(candidates[i]) : tied;
    if (left < weight) return id_of(candidates[i]);
    left -= weight;
  }
  return id_of(candidates[max(end, 1) - 1]);
}

__global__ void __launch_bounds__(kThreads)
    sample_kernel(const SampleJob* jobs, const SampleChange* changes, const int32_t* bans,
                  const float* logits, int64_t stride, int vocab, float* work, SampleResult* results) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto* candidates = reinterpret_cast<uint64_t*>(dynamic);
  __shared__ Shared shared;
  let_next_start();
  wait_for_previous();
  const SampleJob job = jobs[blockIdx.x];
  float* z = work + static_cast<int64_t>(blockIdx.x) * vocab;
  float top;
  int token;
  adjust(job, changes, bans, logits + job.logits_row * stride, z, vocab, shared, top, token);
  SampleResult& result = results[blockIdx.x];
  if (top == kDropped || (job.greedy && !job.logprob)) {
    if (threadIdx.x == 0) result = {token, 0.0f, 1};
    return;
  }
  __syncthreads();
  const double total = weigh(z, vocab, top, job.inverse_temperature, shared);
  __syncthreads();
  const bool cut = (job.top_k > 0 && job.top_k < vocab) || job.top_p < 1.0f;
  int done = 1;
  if (job.greedy) {
    if (threadIdx.x == 0) shared.chosen = token;
  } else if (!cut) {
    const double kept = job.min_p > 0.0f ? keep_likely(z, vocab, job.min_p, shared) : total;
    draw_uncut(z, vocab, draw_unit(job) * kept, shared);
  } else if (collect(job, z, vocab, total, candidates, shared)) {
    sort_descending(candidates, shared.candidates);
    if (threadIdx.x == 0) {
      shared.chosen = draw_cut(job, candidates, shared.candidates, vocab, total, draw_unit(job));
    }
  } else {
    done = 0;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int chosen = done ? shared.chosen : 0;
  const float logprob = static_cast<float>(log(static_cast<double>(z[chosen])) - log(total));
  result = {chosen, job.logprob ? logprob : 0.0f, done};
}

}  // namespace

void sample(const Queue& queue, int64_t count, const SampleJob* jobs, const SampleChange* changes,
            const int32_t* bans, Tensor logits, float* work, SampleResult* results) {
  constexpr size_t kShared = kMostCandidates * sizeof(uint64_t);
  launch(queue, sample_kernel, dim3(static_cast<unsigned>(count)), dim3(kThreads), kShared, jobs, changes,
         bans, logits.as<float>(), logits.stride, static_cast<int>(logits.cols), work, results);
}

}  // namespace fulmar::gpu
