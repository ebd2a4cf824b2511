// Draws tokens on the device by the rules of ops/sampling.h. A survey first divides each row into slices, a
// block each: it adjusts the logits, finds the best id and sums up the weights. Then one block per row draws:
// from the slice in which the drawn mass falls or, with top_p or top_k, from the likeliest ids, found by
// radix selection. Where the survey and one slice suffice for all rows, blocks are small, so that those of
// hundreds of rows are resident at once.
#include "gpu/sampling/sample_select.h"
#include "gpu/sampling/sample_slice.h"
#include "ops/philox.h"
#include "ops/sampling.h"

namespace fulmar::gpu {

namespace {

constexpr int kDrawThreads = kBins, kSurveyThreads = kSampleGroups * kWarp;
constexpr int kDrawWarps = kDrawThreads / kWarp;
constexpr float kSmallestExponential = 6.2e-5f;  // as in ops/sampling.cpp

struct DrawShared : SurveyedShared {
  Best warp_best[kDrawWarps];
  float least;
  SelectMemory select;
  LikelyTokens list;
};

__device__ double draw_unit(const SampleJob& job) {
  const PhiloxBlock random = philox(job.seed, job.position);
  const uint64_t bits = (static_cast<uint64_t>(random.x[0]) << 20) ^ (random.x[1] >> 12);
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

// Surveys one slice of a job's part. grid.x: slices of the part; grid.y: jobs. Sums are of weights relative
// to the slice's best; not computed where the draw needs no weights.
__global__ void __launch_bounds__(kSurveyThreads)
    survey_kernel(const SampleJob* jobs, SampleLists lists, const __grid_constant__ VocabularyPart part,
                  int vocab) {
  __shared__ Unset<LogitsPiece> stored[2];
  __shared__ Unset<Best> warps[kSurveyThreads / kWarp];
  Best* warp_best = &warps[0].value();
  __shared__ double warp_sum[kSurveyThreads / kWarp];
  pdl_launch_next();
  pdl_wait();
  const SampleJob job = jobs[blockIdx.y];
  const int number = part.begin / slice_length(vocab) + static_cast<int>(blockIdx.x);
  const int begin = number * slice_length(vocab), end = min(part.end, begin + slice_length(vocab));
  if (threadIdx.x == 0) {
    stored[0].value() = logits_piece(part, job);
    stored[1].value() = work_piece(part, blockIdx.y);
  }
  __syncthreads();
  const Values logits{&stored[0].value(), 1, true};
  if (!as_they_are(job)) adjust(job, lists, logits, work_of(part, blockIdx.y), begin, end);
  const Values values = as_they_are(job) ? logits : Values{&stored[1].value(), 1, false};
  const Best best = find_best(values, begin, end, {INFINITY, -1}, warp_best);
  const Weights weights{values, best.value, job.inverse_temperature, nullptr};
  const bool weighed = job.logprob || !(job.greedy || job.noise);
  double sum = 0;
  each_value(values, begin, weighed ? end : begin, threadIdx.x, kSurveyThreads, kDropped,
             [&](int, float x) { sum += weights.of(x); });
  sum = warp_total(sum);
  SampleSlice& slice = part.slices[blockIdx.y * kSampleSlices + number];
  if (threadIdx.x % kWarp == 0) {
    const int warp = threadIdx.x / kWarp;
    warp_sum[warp] = sum;
    slice.group_best[warp] = warp_best[warp].value;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kSurveyThreads / kWarp; w++) sum += warp_sum[w];
  slice.best = best.value, slice.best_id = best.id, slice.sum = sum;
}

// Drops weights below min_p and raises the others to the job's power, into `kept`; shared.slice_sum becomes
// the sums of what is kept.
__device__ void keep_likely(const Weights& weights, float* kept, int vocab, const SampleJob& job,
                            DrawShared& shared) {
  static_assert(kDrawWarps == kSampleSlices);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, each = slice_length(vocab);
  double sum = 0;
  for (int i = warp * each + lane; i < min(vocab, (warp + 1) * each); i += kWarp) {
    float weight = weights[i];
    if (weight < job.min_p) weight = 0.0f;
    if (weight > 0) weight = Measure{job.power}.raise(weight);
    kept[i] = weight;
    sum += weight;
  }
  sum = warp_total(sum);
  __syncthreads();
  if (lane == 0) shared.slice_sum[warp] = sum;
  __syncthreads();
}

// Returns a lower bound, from the survey, on the weight of the top_k-th id: top_k groups have a best id of at
// least that. 0 where there are fewer groups.
__device__ float least_by_count(const SampleJob& job, const Weights& weights, DrawShared& shared) {
  constexpr int kDrawGroups = kSampleSlices * kSampleGroups, kGroupThreads = kDrawThreads / kDrawGroups;
  if (job.top_k <= 0 || job.top_k > kDrawGroups) return 0.0f;
  const int thread = static_cast<int>(threadIdx.x), group = thread / kGroupThreads;
  const auto best_of = [&](int one) {
    return shared.slice[one / kSampleGroups].group_best[one % kSampleGroups];
  };
  const float mine = best_of(group);
  int before = 0;
  for (int other = thread % kGroupThreads; other < kDrawGroups; other += kGroupThreads) {
    const float value = best_of(other);
    before += value > mine || (value == mine && other < group) ? 1 : 0;
  }
#pragma unroll
  for (int offset = 1; offset < kGroupThreads; offset *= 2)
    before += __shfl_xor_sync(kFullWarp, before, offset);
  if (thread % kGroupThreads == 0 && before == job.top_k - 1) shared.least = weights.of(mine);
  __syncthreads();
  return shared.least;
}

// What top_k and top_p keep of a row.
struct KeptIds {
  bool binds;
  KeyRange place;  // of the ids at the limit
  double share;    // fraction of its weight that each of them keeps
};

// Narrows `from` to the ids that the limits can keep, listed where they are few enough (step 3).
__device__ KeptIds cut(const SampleJob& job, double total, Candidates& from, SelectMemory& shared) {
  const bool counted = job.top_k > 0 && job.top_k < from.vocab;
  const double wanted = job.top_p < 1.0f ? job.top_p * total * kMassUnits : kNoMassLimit;
  const Tally limit{counted ? static_cast<uint32_t>(job.top_k) : kNoCountLimit,
                    max(static_cast<unsigned long long>(wanted), 1ull)};
  KeyRange place;
  if (!list_candidates(from, shared, from.listed)) {
    if (!select(from, limit, kKeyBits - kDigitBits, {}, shared, place)) return {false, place, 0};
    if (place.before.count + place.count <= kMostListed) {
      from.end = (place.prefix + 1) << place.shift;
      list_candidates(from, shared, from.listed);
    }
  }
  if (!select(from, limit, kIdBits, {}, shared, place)) return {false, place, 0};
  const double ties = place.count;
  const float weight = weight_of(key_in(from, place, shared));
  const double by_mass = (wanted - static_cast<double>(place.before.mass)) / (weight * kMassUnits * ties);
  const double by_count = (static_cast<double>(limit.count) - place.before.count) / ties;
  return {true, place, fmin(fmax(fmin(by_mass, by_count), 0.0), 1.0)};
}

// Draws from what the limits have kept, in order of likelihood (step 4).
__device__ int draw_cut(const SampleJob& job, Candidates from, const KeptIds& cut, SelectMemory& shared) {
  const Measure measure{job.power};
  Candidates above = from;
  double tied = 0;  // the mass of the ids at the limit
  if (cut.binds) {
    const uint64_t key = key_in(from, cut.place, shared);
    above.end = key >> kIdBits << kIdBits;
    const float weight = weight_of(key) * static_cast<float>(cut.share);
    // Powers are of weights relative to the largest, which is 1 or one of these.
    tied = (cut.place.before.count > 0 ? measure.raise(weight) : 1.0) * kMassUnits * cut.place.count;
  }
  const bool known = cut.binds && job.power == 0;
  const uint64_t mass = known ? cut.place.before.mass : total_of(above, measure, shared).mass;
  const double remaining = draw_unit(job) * (static_cast<double>(mass) + tied);
  KeyRange place = cut.place;
  Tally limit{kNoCountLimit, kNoMassLimit};
  if (cut.binds && remaining >= static_cast<double>(mass)) {
    const double share = (remaining - static_cast<double>(mass)) / tied * place.count;
    limit.count = place.before.count + min(static_cast<uint32_t>(share), place.count - 1) + 1;
    select(from, limit, 0, measure, shared, place);
    return id_of(key_in(from, place, shared));
  }
  place = {};
  limit.mass = min(static_cast<unsigned long long>(remaining) + 1, static_cast<unsigned long long>(mass));
  select(above, limit, 0, measure, shared, place);
  return id_of(key_in(above, place, shared));
}

// Runs steps 3 and 4 with top_k or top_p.
__device__ __noinline__ int draw_limited(const SampleJob& job, Weights weights, int vocab, double total,
                                         uint64_t* list, DrawShared& shared) {
  // All ids lighter than this together weigh less than what top_p leaves out.
  const double by_mass = job.top_p < 1.0f ? (1.0 - job.top_p) * total / vocab * 0.999 : 0.0;
  const float least = fmaxf(static_cast<float>(by_mass), least_by_count(job, weights, shared));
  Candidates from{weights, vocab, fmaxf(least, job.min_p), list};
  const KeptIds kept = cut(job, total, from, shared.select);
  return draw_cut(job, from, kept, shared.select);
}

// Returns the id with the largest z / T plus noise, drawn per id; `z` may alias the values.
__device__ int draw_noisy(const SampleJob& job, const Values& values, float* z, int vocab,
                          DrawShared& shared) {
  for (int first = 4 * threadIdx.x; first < vocab; first += 4 * kDrawThreads) {
    const PhiloxBlock random = philox(job.seed, job.position, static_cast<uint64_t>(first / 4 + 1));
    for (int i = 0; i < 4 && first + i < vocab; i++) {
      const float value = values.stored(first + i);
      z[first + i] = value;
      if (value == kDropped) continue;
      const float unit = to_unit(random.x[i]);
      const float noise = job.noise == static_cast<int32_t>(NoiseKind::gumbel)
                              ? -logf(fmaxf(-logf(unit), kSmallestExponential))
                              : unit * job.noise_scale;
      z[first + i] = value * job.inverse_temperature + noise;
    }
  }
  __syncthreads();
  return find_best({&shared.work, 1, false}, 0, vocab, {INFINITY, -1}, shared.warp_best).id;
}

// Lists the likeliest ids in shared.list, with unscaled logits until their sum is known.
__device__ void list_likeliest(const SampleJob& job, const Values& z, int vocab, DrawShared& shared) {
  Best best{INFINITY, -1};
  int listed = 0;
  for (; listed < job.likeliest; listed++) {
    best = find_best(z, 0, vocab, best, shared.warp_best);
    if (best.value == kDropped) break;
    if (threadIdx.x == 0) shared.list.token[listed] = best.id, shared.list.logprob[listed] = best.value;
  }
  if (threadIdx.x == 0) shared.list.count = listed;
}

// Writes a row's result. One thread calls.
__device__ void answer(const SampleJob& job, const SampleLists& lists, int token, float logprob,
                       SampleResult& result) {
  bool stops = false;
  for (int i = 0; i < job.stop_count; i++) stops = stops || lists.ids[job.stops + i] == token;
  result = {token, logprob, stops ? 1 : 0};
}

// Returns the log-probability of the chosen id.
__device__ float logprob_of(const SampleJob& job, const Weights& weights, int chosen, double total) {
  // Where weights were kept, they have overwritten the values; undo their power.
  const double scaled =
      weights.kept != nullptr
          ? log(static_cast<double>(weights[chosen])) / (job.power != 0 ? job.power : 1.0)
          : (static_cast<double>(weights.values[chosen]) - weights.top) * job.inverse_temperature;
  return static_cast<float>(scaled - log(total));
}

__global__ void __launch_bounds__(kDrawThreads)
    draw_kernel(const SampleJob* jobs, SampleLists lists, const __grid_constant__ VocabularyParts parts,
                int vocab, float* work, SampleResult* results, LikelyTokens* likely) {
  extern __shared__ __align__(16) unsigned char dynamic[];
  auto* list = reinterpret_cast<uint64_t*>(dynamic);
  __shared__ Unset<DrawShared> memory;
  DrawShared& shared = memory.value();
  pdl_launch_next();
  pdl_wait();
  const SampleJob job = jobs[blockIdx.x];
  SampleResult& result = results[blockIdx.x];
  work += static_cast<int64_t>(blockIdx.x) * vocab;
  list_parts(job, parts, work, vocab, shared);
  Values values{shared.values, parts.count, as_they_are(job)};
  const Best best = combine(job, shared);
  int token = best.value == kDropped ? 0 : best.id;
  if (job.given >= 0) token = job.given;
  if (best.value == kDropped || (job.greedy && !job.logprob)) {
    if (threadIdx.x == 0) answer(job, lists, token, 0.0f, result);
    if (threadIdx.x == 0 && job.likeliest > 0) likely[blockIdx.x].count = 0;
    return;
  }
  if (job.likeliest > 0) list_likeliest(job, values, vocab, shared);
  const bool noisy = job.noise != 0 && !job.greedy;
  if (noisy) {
    token = draw_noisy(job, values, work, vocab, shared);
    if (!job.logprob) {
      if (threadIdx.x == 0) answer(job, lists, token, 0.0f, result);
      return;
    }
    // draw_noisy has overwritten the working memory.
    __syncthreads();
    adjust(job, lists, {shared.logits, parts.count, true}, work, 0, vocab);
    values = {&shared.work, 1, false};
  }
  Weights weights{values, best.value, job.inverse_temperature, nullptr};
  const double total = slices_total(shared);
  const bool limited = (job.top_k > 0 && job.top_k < vocab) || job.top_p < 1.0f;
  if (job.greedy || noisy) {
    if (threadIdx.x == 0) shared.chosen = token;
  } else if (!limited) {
    const bool changed = job.min_p > 0.0f || job.power != 0;
    if (changed) keep_likely(weights, work, vocab, job, shared);
    if (changed) weights.kept = work;
    draw_uncut(weights, vocab, draw_unit(job) * slices_total(shared), shared);
  } else {
    const int drawn = draw_limited(jobs[blockIdx.x], weights, vocab, total, list, shared);
    if (threadIdx.x == 0) shared.chosen = drawn;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  const int chosen = shared.chosen;
  answer(job, lists, chosen, job.logprob ? logprob_of(job, weights, chosen, total) : 0.0f, result);
  if (job.likeliest == 0) return;
  const double log_sum = static_cast<double>(best.value) * job.inverse_temperature + log(total);
  for (int i = 0; i < shared.list.count; i++) {
    const double scaled = static_cast<double>(shared.list.logprob[i]) * job.inverse_temperature;
    shared.list.logprob[i] = static_cast<float>(scaled - log_sum);
  }
  likely[blockIdx.x] = shared.list;
}

// Draws for jobs for which surveys and one slice suffice.
__global__ void __launch_bounds__(kSmallDrawThreads)
    draw_surveyed_kernel(const SampleJob* jobs, SampleLists lists,
                         const __grid_constant__ VocabularyParts parts, int vocab, SampleResult* results) {
  __shared__ Unset<SurveyedShared> memory;
  SurveyedShared& shared = memory.value();
  pdl_launch_next();
  pdl_wait();
  const SampleJob job = jobs[blockIdx.x];
  list_parts(job, parts, nullptr, vocab, shared);
  const Best best = combine(job, shared);
  const bool known = best.value == kDropped || job.greedy;
  if (threadIdx.x == 0) shared.chosen = job.given >= 0 ? job.given : best.value == kDropped ? 0 : best.id;
  const Weights weights{
      {shared.values, parts.count, as_they_are(job)}, best.value, job.inverse_temperature, nullptr};
  const double total = slices_total(shared);
  if (!known) draw_uncut(weights, vocab, draw_unit(job) * total, shared);
  if (threadIdx.x != 0) return;
  const bool scored = job.logprob && best.value != kDropped;
  answer(job, lists, shared.chosen, scored ? logprob_of(job, weights, shared.chosen, total) : 0.0f,
         results[blockIdx.x]);
}

__global__ void feed_drawn_kernel(const SampleResult* drawn, int64_t rows, int32_t spare_slot, int32_t* token,
                                  int32_t* slot) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows || token[row] >= 0) return;
  const SampleResult one = drawn[-1 - token[row]];
  token[row] = one.token;
  if (one.stops != 0) slot[row] = spare_slot;
}

}  // namespace

void feed_drawn(const Queue& queue, const SampleResult* drawn, int64_t rows, int32_t spare_slot,
                int32_t* token, int32_t* slot) {
  constexpr int kFeedThreads = 128;
  launch(queue, feed_drawn_kernel, dim3(static_cast<unsigned>((rows + kFeedThreads - 1) / kFeedThreads)),
         dim3(kFeedThreads), 0, drawn, rows, spare_slot, token, slot);
}

void survey(const Queue& queue, const SampleJobs& all, const VocabularyPart& part) {
  const int64_t length = survey_slice_length(all.vocab);
  const auto slices = static_cast<unsigned>((part.end - part.begin + length - 1) / length);
  launch(queue, survey_kernel, dim3(slices, static_cast<unsigned>(all.count)), dim3(kSurveyThreads), 0,
         all.jobs, all.lists, part, static_cast<int>(all.vocab));
}

void draw(const Queue& queue, const SampleJobs& all, const VocabularyParts& parts, float* work,
          SampleResult* results, LikelyTokens* likely) {
  constexpr size_t kListBytes = kMostListed * sizeof(uint64_t), kMostShared = 48 * 1024;
  static_assert(kListBytes + sizeof(DrawShared) <= kMostShared);  // fits without opting in to more
  launch(queue, draw_kernel, dim3(static_cast<unsigned>(all.count)), dim3(kDrawThreads), kListBytes, all.jobs,
         all.lists, parts, static_cast<int>(all.vocab), work, results, likely);
}

void draw_surveyed(const Queue& queue, const SampleJobs& all, const VocabularyParts& parts,
                   SampleResult* results) {
  launch(queue, draw_surveyed_kernel, dim3(static_cast<unsigned>(all.count)), dim3(kSmallDrawThreads), 0,
         all.jobs, all.lists, parts, static_cast<int>(all.vocab), results);
}

}  // namespace fulmar::gpu
