// Draws tokens on the device by the rules of ops/sampling.h. A row is surveyed in slices first, a block each:
// adjusted, its likeliest id found, its mass summed up. Then a block per row draws: from the slice that the
// mass leads to, or from the likeliest ids, found by a histogram of their magnitudes and sorted.
#include "gpu/ptx.h"
#include "gpu/sample_values.h"
#include "ops/philox.h"
#include "ops/sampling.h"

namespace fulmar::gpu {

namespace {

constexpr int kThreads = 1024, kSurveyThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kMostCandidates = 4096;
constexpr int kBins = 1024;    // of magnitudes from 1 down, eight to a power of two
constexpr int kBinShift = 20;  // of a float's bits: exponent and three bits of the fraction
constexpr double kMassUnit = 1.0 / (1ull << 40);
constexpr float kSmallestExponential = 6.2e-5f;  // as in ops/sampling.cpp

struct Shared {
  double slice_sum[kSampleSlices];
  double warp_sum[kWarps];
  Best warp_best[kWarps];
  uint32_t count[kBins];
  unsigned long long mass[kBins];  // in kMassUnit: integers add up to the same in any order
  int candidates, cut_bin, chosen;
  int reached, alive;  // of the threads: the first where a mass is reached, the last that has any
  int begin, end;      // of the candidates tied at a cut
  float tied;          // what each of them weighs
  LikelyTokens list;
};

// Ids of a slice; a multiple of four, so that slices begin where four values can be read at once.
__device__ int slice_length(int vocab) {
  constexpr int kGrain = 4 * kSampleSlices;
  return (vocab + kGrain - 1) / kGrain * 4;
}

__device__ uint32_t bin_of(float weight) {
  const uint32_t below = (__float_as_uint(1.0f) >> kBinShift) - (__float_as_uint(weight) >> kBinShift);
  return below < kBins ? below : kBins - 1;
}

__device__ double draw_unit(const SampleJob& job) {
  const PhiloxBlock random = philox(job.seed, job.position);
  const uint64_t bits = (static_cast<uint64_t>(random.x[0]) << 20) ^ (random.x[1] >> 12);
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

__device__ double warp_total(double sum) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  return sum;
}

// Along x of the grid the slices, along y the jobs. Sums are of weights relative to the slice's best, where
// the draw goes by weights.
__global__ void __launch_bounds__(kSurveyThreads)
    survey_kernel(const SampleJob* jobs, SampleLists lists, const float* logits, int64_t stride, int vocab,
                  float* work, SampleSlice* slices) {
  __shared__ Best warp_best[kSurveyThreads / kWarp];
  __shared__ double warp_sum[kSurveyThreads / kWarp];
  let_next_start();
  wait_for_previous();
  const SampleJob job = jobs[blockIdx.y];
  const int begin = min(vocab, static_cast<int>(blockIdx.x) * slice_length(vocab));
  const int end = min(vocab, begin + slice_length(vocab));
  logits += job.logits_row * stride;
  work += static_cast<int64_t>(blockIdx.y) * vocab;
  const Values values = values_of(job, logits, work);
  if (!values.raw) adjust(job, lists, logits, work, begin, end);
  const Best best = find_best(values, begin, end, {INFINITY, -1}, warp_best);
  const Weights weights{values, best.value, job.inverse_temperature, nullptr};
  const bool weighed = job.logprob || !(job.greedy || job.noise);
  double sum = 0;
  each_value(values, begin, weighed ? end : begin, threadIdx.x, kSurveyThreads,
             [&](int, float x) { sum += weights.of(x); });
  sum = warp_total(sum);
  if (threadIdx.x % kWarp == 0) warp_sum[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kSurveyThreads / kWarp; w++) sum += warp_sum[w];
  slices[blockIdx.y * kSampleSlices + blockIdx.x] = {best.value, best.id, sum};
}

// The row's best; shared.slice_sum becomes what each slice weighs relative to it.
__device__ Best combine(const SampleJob& job, const SampleSlice* slices, Shared& shared) {
  Best best;
  for (int s = 0; s < kSampleSlices; s++) best.take({slices[s].best, slices[s].best_id});
  if (threadIdx.x < kSampleSlices) {
    const SampleSlice slice = slices[threadIdx.x];
    const double below = static_cast<double>(slice.best - best.value) * job.inverse_temperature;
    shared.slice_sum[threadIdx.x] = slice.best == kDropped ? 0.0 : slice.sum * exp(below);
  }
  __syncthreads();
  return best;
}

__device__ double total_of(const Shared& shared) {
  double total = 0;
  for (int s = 0; s < kSampleSlices; s++) total += shared.slice_sum[s];
  return total;
}

__device__ float raised(float weight, double power) {
  return static_cast<float>(pow(static_cast<double>(weight), power));
}

// Drops weights below min_p and raises the others, into `kept`; shared.slice_sum becomes that of what is
// kept.
__device__ void keep_likely(const Weights& weights, float* kept, int vocab, const SampleJob& job,
                            Shared& shared) {
  static_assert(kWarps == kSampleSlices);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, each = slice_length(vocab);
  double sum = 0;
  for (int i = warp * each + lane; i < min(vocab, (warp + 1) * each); i += kWarp) {
    float weight = weights[i];
    if (weight < job.min_p) weight = 0.0f;
    if (job.power != 0 && weight > 0) weight = raised(weight, job.power);
    kept[i] = weight;
    sum += weight;
  }
  sum = warp_total(sum);
  __syncthreads();
  if (lane == 0) shared.slice_sum[warp] = sum;
  __syncthreads();
}

// The id of [begin, end) at `left` of the mass there, ids in order.
__device__ void draw_within(const Weights& weights, int begin, int end, double left, Shared& shared) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp,
            each = (end - begin + kThreads - 1) / kThreads;
  const int first = min(begin + static_cast<int>(threadIdx.x) * each, end), last = min(first + each, end);
  double sum = 0;
  for (int i = first; i < last; i++) sum += weights[i];
  double through = sum;
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const double other = __shfl_up_sync(kFullWarp, through, offset);
    if (lane >= offset) through += other;
  }
  if (lane == kWarp - 1) shared.warp_sum[warp] = through;
  if (threadIdx.x == 0) shared.reached = kThreads, shared.alive = 0;
  __syncthreads();
  for (int w = 0; w < warp; w++) through += shared.warp_sum[w];
  if (sum > 0) atomicMax(&shared.alive, static_cast<int>(threadIdx.x));
  if (sum > 0 && through > left) atomicMin(&shared.reached, static_cast<int>(threadIdx.x));
  __syncthreads();
  // Where rounding leaves a little over it is the last one that weighs anything.
  const int owner = shared.reached < kThreads ? shared.reached : shared.alive;
  if (threadIdx.x != owner) return;
  shared.chosen = first;
  left -= through - sum;
  for (int i = first; i < last; i++) {
    const float weight = weights[i];
    if (weight <= 0) continue;
    shared.chosen = i;
    if (left < weight) break;
    left -= weight;
  }
}

// The id at `left` of the whole mass, ids in order.
__device__ void draw_uncut(const Weights& weights, int vocab, double left, Shared& shared) {
  int slice = 0;
  while (slice + 1 < kSampleSlices && left >= shared.slice_sum[slice]) left -= shared.slice_sum[slice++];
  while (slice > 0 && shared.slice_sum[slice] <= 0) slice--;
  const int begin = min(vocab, slice * slice_length(vocab));
  draw_within(weights, begin, min(vocab, begin + slice_length(vocab)), left, shared);
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
  return find_best({z, false}, 0, vocab, {INFINITY, -1}, shared.warp_best).id;
}

// The likeliest ids and, until their sum is known, their scaled logits, into shared.list.
__device__ void list_likeliest(const SampleJob& job, const Values& z, int vocab, Shared& shared) {
  Best best{INFINITY, -1};
  int listed = 0;
  for (; listed < job.likeliest; listed++) {
    best = find_best(z, 0, vocab, best, shared.warp_best);
    if (best.value == kDropped) break;
    if (threadIdx.x == 0) shared.list.token[listed] = best.id, shared.list.logprob[listed] = best.value;
  }
  if (threadIdx.x == 0) shared.list.count = listed;
}

// One thread's last words.
__device__ void answer(const SampleJob& job, const SampleLists& lists, int token, float logprob, bool done,
                       SampleResult& result) {
  bool stops = false;
  for (int i = 0; i < job.stop_count; i++) stops = stops || lists.ids[job.stops + i] == token;
  result = {token, logprob, done ? 1 : 0, stops ? 1 : 0};
}

__global__ void __launch_bounds__(kThreads)
    sample_kernel(const SampleJob* jobs, SampleLists lists, const float* logits, int64_t stride, int vocab,
                  float* work, const SampleSlice* slices, SampleResult* results, LikelyTokens* likely) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto* candidates = reinterpret_cast<uint64_t*>(dynamic);
  __shared__ Shared shared;
  let_next_start();
  wait_for_previous();
  const SampleJob job = jobs[blockIdx.x];
  SampleResult& result = results[blockIdx.x];
  logits += job.logits_row * stride;
  work += static_cast<int64_t>(blockIdx.x) * vocab;
  const Values values = values_of(job, logits, work);
  const Best best = combine(job, slices + blockIdx.x * kSampleSlices, shared);
  int token = best.value == kDropped ? 0 : best.id;
  if (best.value == kDropped || (job.greedy && !job.logprob)) {
    if (threadIdx.x == 0) answer(job, lists, token, 0.0f, true, result);
    if (threadIdx.x == 0 && job.likeliest > 0) likely[blockIdx.x].count = 0;
    return;
  }
  if (job.likeliest > 0) list_likeliest(job, values, vocab, shared);
  const bool noisy = job.noise != 0 && !job.greedy;
  if (noisy) {
    token = draw_noisy(job, work, vocab, shared);
    if (!job.logprob) {
      if (threadIdx.x == 0) answer(job, lists, token, 0.0f, true, result);
      return;
    }
    // The noise has used the working memory up.
    __syncthreads();
    adjust(job, lists, logits, work, 0, vocab);
  }
  Weights weights{values, best.value, job.inverse_temperature, nullptr};
  const double total = total_of(shared);
  const bool limited = (job.top_k > 0 && job.top_k < vocab) || job.top_p < 1.0f;
  bool done = true;
  if (job.greedy || noisy) {
    if (threadIdx.x == 0) shared.chosen = token;
  } else if (!limited) {
    const bool changed = job.min_p > 0.0f || job.power != 0;
    if (changed) keep_likely(weights, work, vocab, job, shared);
    if (changed) weights.kept = work;
    draw_uncut(weights, vocab, draw_unit(job) * total_of(shared), shared);
  } else if (collect(job, weights, vocab, total, candidates, shared)) {
    sort_descending(candidates, shared.candidates);
    if (threadIdx.x == 0) cut(job, candidates, shared.candidates, vocab, total, shared);
    __syncthreads();
    draw_cut(job, candidates, draw_unit(job), shared);
  } else {
    done = false;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int chosen = done ? shared.chosen : 0;
  float logprob = 0;
  if (job.logprob) {
    // Weights that were raised before the draw come back from it here.
    const double power = job.power != 0 && !limited ? job.power : 1.0;
    logprob = static_cast<float>(log(static_cast<double>(weights[chosen])) / power - log(total));
  }
  answer(job, lists, chosen, logprob, done, result);
  if (job.likeliest == 0) return;
  const double log_sum = static_cast<double>(best.value) * job.inverse_temperature + log(total);
  for (int i = 0; i < shared.list.count; i++) {
    const double scaled = static_cast<double>(shared.list.logprob[i]) * job.inverse_temperature;
    shared.list.logprob[i] = static_cast<float>(scaled - log_sum);
  }
  likely[blockIdx.x] = shared.list;
}

}  // namespace

void sample(const Queue& queue, int64_t count, const SampleJob* jobs, const SampleLists& lists, Tensor logits,
            float* work, SampleSlice* slices, SampleResult* results, LikelyTokens* likely) {
  constexpr size_t kShared = kMostCandidates * sizeof(uint64_t);
  const auto rows = static_cast<unsigned>(count);
  const auto vocab = static_cast<int>(logits.cols);
  launch(queue, survey_kernel, dim3(kSampleSlices, rows), dim3(kSurveyThreads), 0, jobs, lists,
         logits.as<float>(), logits.stride, vocab, work, slices);
  launch(queue, sample_kernel, dim3(rows), dim3(kThreads), kShared, jobs, lists, logits.as<float>(),
         logits.stride, vocab, work, slices, results, likely);
}

}  // namespace fulmar::gpu
