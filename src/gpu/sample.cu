// Draws tokens on the device by the rules of ops/sampling.h: adjusted weights in one pass, then the whole
// mass, or the likeliest ids found by a histogram of their magnitudes and sorted. A block per token.
#include <cfloat>

#include "gpu/element.h"
#include "gpu/ptx.h"
#include "gpu/sample.h"
#include "ops/philox.h"
#include "ops/sampling.h"

namespace fulmar::gpu {

namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMostCandidates = 4096;
constexpr int kBins = 1024;    // of magnitudes from 1 down, eight to a power of two
constexpr int kBinShift = 20;  // of a float's bits: exponent and three bits of the fraction
constexpr double kMassUnit = 1.0 / (1ull << 40);
constexpr float kDropped = -INFINITY;
constexpr float kSmallestExponential = 6.2e-5f;  // as in ops/sampling.cpp

struct Shared {
  double warp_sum[kWarps];
  float warp_max[kWarps];
  int warp_index[kWarps];
  uint32_t count[kBins];
  unsigned long long mass[kBins];  // in kMassUnit: integers add up to the same in any order
  int candidates, cut_bin, chosen;
  int begin, end;  // of the candidates tied at a cut
  float tied;      // what each of them weighs
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

// The logits that a draw goes by: a copy that was adjusted, or where nothing is to adjust the model's own.
struct Values {
  const float* z;
  bool raw;

  __device__ float tidy(float x) const {
    if (!raw) return x;
    return x == x ? clamp_finite(x) : 0.0f;
  }
  __device__ float operator[](int i) const { return tidy(z[i]); }
};

// use(id, value) for the ids of [begin, end) that fall to one of so many lanes: four at a time where memory
// allows it.
template <class Use>
__device__ void each_value(const Values& values, int begin, int end, int lane, int lanes, const Use& use) {
  if (begin % 4 == 0 && end % 4 == 0 && reinterpret_cast<uintptr_t>(values.z) % sizeof(float4) == 0) {
#pragma unroll 4
    for (int i = begin + 4 * lane; i < end; i += 4 * lanes) {
      const float4 x = *reinterpret_cast<const float4*>(values.z + i);
      use(i, values.tidy(x.x));
      use(i + 1, values.tidy(x.y));
      use(i + 2, values.tidy(x.z));
      use(i + 3, values.tidy(x.w));
    }
  } else {
    for (int i = begin + lane; i < end; i += lanes) use(i, values[i]);
  }
}

// What each id weighs: computed wherever it is asked for, or kept.
struct Weights {
  Values values;
  float top, inverse_temperature;
  const float* kept;  // null: computed

  __device__ float operator[](int i) const { return kept != nullptr ? kept[i] : of(values[i]); }
  __device__ float of(float x) const {
    return x == kDropped ? 0.0f : __expf(fmaxf((x - top) * inverse_temperature, -87.0f));
  }
};

// The first of all values behind (previous, previous_id) in the order of likelihood: larger ones first, then
// lower ids. kDropped where there is none left.
__device__ void find_best(Values z, int vocab, float previous, int previous_id, Shared& shared, float& best,
                          int& best_id) {
  best = kDropped;
  best_id = vocab;
  each_value(z, 0, vocab, threadIdx.x, kThreads, [&](int i, float x) {
    const bool behind = x < previous || (x == previous && i > previous_id);
    if (behind && x > best) best = x, best_id = i;
  });
  const auto take = [&](float other, int other_id) {
    if (other > best || (other == best && other_id < best_id)) best = other, best_id = other_id;
  };
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(kFullWarp, best, offset);
    const int other_id = __shfl_xor_sync(kFullWarp, best_id, offset);
    take(other, other_id);
  }
  __syncthreads();
  if (threadIdx.x % kWarp == 0)
    shared.warp_max[threadIdx.x / kWarp] = best, shared.warp_index[threadIdx.x / kWarp] = best_id;
  __syncthreads();
  for (int w = 0; w < kWarps; w++) take(shared.warp_max[w], shared.warp_index[w]);
}

// The values that the job is drawn from, in working memory where they differ from the model's or will.
__device__ Values adjusted(const SampleJob& job, const SampleLists& lists, const float* logits, float* z,
                           int vocab) {
  const bool as_they_are =
      job.biases == 0 && job.penalties == 0 && job.banned == 0 && job.mask_words == 0 && job.noise == 0;
  if (as_they_are) return {logits, true};
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
      const SampleChange change = lists.changes[first + i];
      if (change.token >= 0 && change.token < vocab)
        z[change.token] = clamp_finite(z[change.token] + change.added);
    }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < job.banned; i += kThreads) {
    const int32_t id = lists.bans[job.bans + i];
    if (id >= 0 && id < vocab) z[id] = kDropped;
  }
  for (int i = threadIdx.x; job.mask_words > 0 && i < vocab; i += kThreads) {
    const bool allowed = i / 64 < job.mask_words && (lists.masks[job.masks + i / 64] >> (i % 64) & 1) != 0;
    if (!allowed) z[i] = kDropped;
  }
  __syncthreads();
  return {z, false};
}

// The sum of the weights, and per warp of its share of ids, which lie side by side.
__device__ double weigh(const Weights& weights, int vocab, Shared& shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, each = (vocab + kWarps - 1) / kWarps;
  double sum = 0;
  each_value(weights.values, warp * each, min(vocab, (warp + 1) * each), lane, kWarp,
             [&](int, float x) { sum += weights.of(x); });
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  if (lane == 0) shared.warp_sum[warp] = sum;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < kWarps; w++) total += shared.warp_sum[w];
  return total;
}

__device__ float raised(float weight, double power) {
  return static_cast<float>(pow(static_cast<double>(weight), power));
}

// Drops weights below min_p and raises the others, into `kept`; the sums per warp become those of what is
// kept. Returns their sum.
__device__ double keep_likely(const Weights& weights, float* kept, int vocab, const SampleJob& job,
                              Shared& shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, each = (vocab + kWarps - 1) / kWarps;
  double sum = 0;
  for (int i = warp * each + lane; i < min(vocab, (warp + 1) * each); i += kWarp) {
    float weight = weights[i];
    if (weight < job.min_p) weight = 0.0f;
    if (job.power != 0 && weight > 0) weight = raised(weight, job.power);
    kept[i] = weight;
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

// Of 32 equal pieces of the ids [begin, end) the one in which the mass reaches `left`, and what is left
// there.
__device__ void narrow(const Weights& weights, int& begin, int& end, double& left) {
  const int lane = threadIdx.x % kWarp, each = (end - begin + kWarp - 1) / kWarp;
  const int first = min(begin + lane * each, end), last = min(first + each, end);
  double sum = 0;
#pragma unroll 8
  for (int i = first; i < last; i++) sum += weights[i];
  double through = sum;
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const double other = __shfl_up_sync(kFullWarp, through, offset);
    if (lane >= offset) through += other;
  }
  const unsigned reached = __ballot_sync(kFullWarp, sum > 0 && through > left);
  const unsigned alive = __ballot_sync(kFullWarp, sum > 0);
  // Where rounding leaves a little over it is the last one that weighs anything.
  const int chosen = reached != 0 ? __ffs(static_cast<int>(reached)) - 1
                     : alive != 0 ? 31 - __clz(static_cast<int>(alive))
                                  : 0;
  left -= __shfl_sync(kFullWarp, through - sum, chosen);
  begin = __shfl_sync(kFullWarp, first, chosen);
  end = __shfl_sync(kFullWarp, last, chosen);
}

// The id at `left` of the mass, ids in order; the first warp does it.
__device__ void draw_uncut(const Weights& weights, int vocab, double left, Shared& shared) {
  if (threadIdx.x >= kWarp) return;
  const int each = (vocab + kWarps - 1) / kWarps;
  int warp = 0;
  while (warp + 1 < kWarps && left >= shared.warp_sum[warp]) left -= shared.warp_sum[warp++];
  while (warp > 0 && shared.warp_sum[warp] <= 0) warp--;
  int begin = warp * each, end = min(vocab, begin + each);
  while (end - begin > 1) narrow(weights, begin, end, left);
  if (threadIdx.x == 0) shared.chosen = begin;
}

// Collects the ids that the limits can keep, unordered: all bins from the heaviest down to the one in which a
// limit binds. False where there are more than fit.
__device__ bool collect(const SampleJob& job, const Weights& weights, int vocab, double total,
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

// Step 3 over the sorted candidates, one thread: few are walked over before a limit binds. Those before
// `begin` count whole, those up to `end` by their share.
__device__ void cut(const SampleJob& job, const uint64_t* candidates, int count, int vocab, double total,
                    Shared& shared) {
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
  shared.begin = begin;
  shared.end = end;
  shared.tied = begin < count ? weight_of(candidates[begin]) * static_cast<float>(share) : 0.0f;
}

// Step 4 over what the cut has kept.
__device__ void draw_cut(const SampleJob& job, uint64_t* candidates, double unit, Shared& shared) {
  const int begin = shared.begin, end = shared.end;
  const float largest = begin > 0 ? weight_of(candidates[0]) : shared.tied;
  __syncthreads();
  for (int i = threadIdx.x; i < end; i += kThreads) {
    float weight = i < begin ? weight_of(candidates[i]) : shared.tied;
    if (job.power != 0) weight = raised(weight / largest, job.power);
    candidates[i] =
        static_cast<uint64_t>(__float_as_uint(weight)) << 32 | static_cast<uint32_t>(candidates[i]);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (int i = 0; i < end; i++) total += weight_of(candidates[i]);
  double left = unit * total;
  int chosen = max(end, 1) - 1;
  for (int i = 0; i < end; i++) {
    const double weight = weight_of(candidates[i]);
    if (left < weight) {
      chosen = i;
      break;
    }
    left -= weight;
  }
  shared.chosen = id_of(candidates[chosen]);
}

// The largest of z / T plus noise of its own for every id, into z itself.
__device__ int draw_noisy(const SampleJob& job, float* z, int vocab, Shared& shared) {
  for (int first = 4 * threadIdx.x; first < vocab; first += 4 * kThreads) {
    const PhiloxBlock random = philox(job.seed, job.position, static_cast<uint64_t>(first / 4 + 1));
    for (int i = 0; i < 4 && first + i < vocab; i++) {
      if (z[first + i] == kDropped) continue;
      const float unit = to_unit(random.x[i]);
      const float noise = job.noise == static_cast<int32_t>(NoiseKind::gumbel)
                              ? -logf(fmaxf(-logf(unit), kSmallestExponential))
                              : unit * job.noise_scale;
      z[first + i] = z[first + i] * job.inverse_temperature + noise;
    }
  }
  __syncthreads();
  float best;
  int chosen;
  find_best({z, false}, vocab, INFINITY, -1, shared, best, chosen);
  return chosen;
}

// The likeliest ids and, until their sum is known, their scaled logits.
__device__ void list_likeliest(const SampleJob& job, Values z, int vocab, Shared& shared,
                               LikelyTokens& likely) {
  float value = INFINITY;
  int id = -1, listed = 0;
  for (; listed < job.likeliest; listed++) {
    find_best(z, vocab, value, id, shared, value, id);
    if (value == kDropped) break;
    if (threadIdx.x == 0) likely.token[listed] = id, likely.logprob[listed] = value;
  }
  if (threadIdx.x == 0) likely.count = listed;
}

__global__ void __launch_bounds__(kThreads)
    sample_kernel(const SampleJob* jobs, SampleLists lists, const float* logits, int64_t stride, int vocab,
                  float* work, SampleResult* results, LikelyTokens* likely) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto* candidates = reinterpret_cast<uint64_t*>(dynamic);
  __shared__ Shared shared;
  let_next_start();
  wait_for_previous();
  const SampleJob job = jobs[blockIdx.x];
  logits += job.logits_row * stride;
  work += static_cast<int64_t>(blockIdx.x) * vocab;
  const Values values = adjusted(job, lists, logits, work, vocab);
  float top;
  int token;
  find_best(values, vocab, INFINITY, -1, shared, top, token);
  if (top == kDropped) token = 0;
  SampleResult& result = results[blockIdx.x];
  LikelyTokens& list = likely[blockIdx.x];
  if (top == kDropped || (job.greedy && !job.logprob)) {
    if (threadIdx.x == 0) result = {token, 0.0f, 1};
    if (threadIdx.x == 0 && job.likeliest > 0) list.count = 0;
    return;
  }
  __syncthreads();
  if (job.likeliest > 0) list_likeliest(job, values, vocab, shared, list);
  const bool noisy = job.noise != 0 && !job.greedy;
  if (noisy) {
    token = draw_noisy(job, work, vocab, shared);
    if (!job.logprob) {
      if (threadIdx.x == 0) result = {token, 0.0f, 1};
      return;
    }
    // The noise has used the working memory up.
    __syncthreads();
    adjusted(job, lists, logits, work, vocab);
  }
  __syncthreads();
  Weights weights{values, top, job.inverse_temperature, nullptr};
  const double total = weigh(weights, vocab, shared);
  __syncthreads();
  const bool limited = (job.top_k > 0 && job.top_k < vocab) || job.top_p < 1.0f;
  int done = 1;
  if (job.greedy || noisy) {
    if (threadIdx.x == 0) shared.chosen = token;
  } else if (!limited) {
    const bool changed = job.min_p > 0.0f || job.power != 0;
    const double kept = changed ? keep_likely(weights, work, vocab, job, shared) : total;
    if (changed) weights.kept = work;
    draw_uncut(weights, vocab, draw_unit(job) * kept, shared);
  } else if (collect(job, weights, vocab, total, candidates, shared)) {
    sort_descending(candidates, shared.candidates);
    if (threadIdx.x == 0) cut(job, candidates, shared.candidates, vocab, total, shared);
    __syncthreads();
    draw_cut(job, candidates, draw_unit(job), shared);
  } else {
    done = 0;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int chosen = done ? shared.chosen : 0;
  // Weights that were raised before the draw come back from it here.
  const double power = job.power != 0 && !limited ? job.power : 1.0;
  const double own = log(static_cast<double>(weights[chosen])) / power;
  result = {chosen, job.logprob ? static_cast<float>(own - log(total)) : 0.0f, done};
  const double log_sum = static_cast<double>(top) * job.inverse_temperature + log(total);
  for (int i = 0; job.likeliest > 0 && i < list.count; i++) {
    const double scaled = static_cast<double>(list.logprob[i]) * job.inverse_temperature;
    list.logprob[i] = static_cast<float>(scaled - log_sum);
  }
}

}  // namespace

void sample(const Queue& queue, int64_t count, const SampleJob* jobs, const SampleLists& lists, Tensor logits,
            float* work, SampleResult* results, LikelyTokens* likely) {
  constexpr size_t kShared = kMostCandidates * sizeof(uint64_t);
  launch(queue, sample_kernel, dim3(static_cast<unsigned>(count)), dim3(kThreads), kShared, jobs, lists,
         logits.as<float>(), logits.stride, static_cast<int>(logits.cols), work, results, likely);
}

}  // namespace fulmar::gpu
