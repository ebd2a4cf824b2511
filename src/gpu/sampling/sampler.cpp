#include "gpu/sampling/sampler.h"

#include <algorithm>
#include <functional>

#include "ops/sampling_mode.h"

namespace fulmar::gpu {

namespace {

size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

size_t penalised_ids(const SampleRow& row) {
  return row.memory != nullptr && row.params->penalised() ? row.memory->seen.size() : 0;
}

template <class T>
T* at(const Buffer& block, size_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(block.data()) + offset);
}

// Arrays that the jobs of one launch index, filled from the front.
template <class T>
struct Filled {
  T* data;
  int32_t size = 0;

  template <class Many, class Make = std::identity>
  void append(const Many& many, const Make& make = {}) {
    std::transform(many.begin(), many.end(), data + size, make);
    size += static_cast<int32_t>(many.size());
  }
};
struct Lists {
  Filled<SampleChange> changes;
  Filled<int32_t> ids;
  Filled<uint64_t> masks;
};

SampleJob job_of(const SampleRow& row, Lists& lists) {
  const SamplingParams& params = *row.params;
  SampleJob job;
  job.logits_row = row.logits_row;
  job.seed = params.seed;
  job.position = row.position;
  job.changes = lists.changes.size;
  lists.changes.append(params.logit_bias, [](const auto& one) {
    return SampleChange{one.first, one.second};
  });
  job.biases = static_cast<int32_t>(params.logit_bias.size());
  job.penalties = static_cast<int32_t>(penalised_ids(row));
  if (job.penalties > 0) {
    lists.changes.append(row.memory->seen, [](const auto& one) {
      return SampleChange{one.token, -one.penalty};
    });
  }
  job.bans = lists.ids.size;
  lists.ids.append(params.banned);
  lists.ids.append(row.banned_here);
  job.banned = lists.ids.size - job.bans;
  job.stops = lists.ids.size;
  job.stop_count = static_cast<int32_t>(row.stops.size());
  lists.ids.append(row.stops);
  job.masks = lists.masks.size;
  job.mask_words = static_cast<int32_t>(row.allowed.size());
  lists.masks.append(row.allowed);
  job.top_k = params.top_k;
  job.top_p = params.top_p;
  job.min_p = params.min_p;
  const SamplingMode mode = sampling_mode(params, row.given >= 0);
  job.given = row.given;
  job.greedy = mode.greedy ? 1 : 0;
  job.noise = mode.noisy ? static_cast<int32_t>(params.noise) : 0;
  job.noise_scale = params.noise_scale;
  job.inverse_temperature = 1.0f / mode.temperature;
  job.power = mode.power;
  job.logprob = params.top_logprobs >= 0 ? 1 : 0;
  job.likeliest = std::max(params.top_logprobs, 0);
  return job;
}

SampledToken token_of(const SampleJob& job, const SampleResult& result, const LikelyTokens& likely) {
  SampledToken token{result.token, result.logprob, {}, result.stops != 0};
  for (int n = 0; job.likeliest > 0 && n < likely.count; n++) {
    token.top.push_back({likely.token[n], likely.logprob[n]});
  }
  return token;
}

}  // namespace

Sampler::Layout Sampler::layout_of(std::span<const SampleRow> rows, std::span<const size_t> drawn) {
  size_t changed = 0, listed = 0, words = 0;
  for (const size_t i : drawn) {
    const SampleRow& row = rows[i];
    changed += row.params->logit_bias.size() + penalised_ids(row);
    listed += row.params->banned.size() + row.banned_here.size() + row.stops.size();
    words += row.allowed.size();
  }
  Layout layout;
  layout.changes = aligned(drawn.size() * sizeof(SampleJob));
  layout.ids = layout.changes + aligned(changed * sizeof(SampleChange));
  layout.masks = layout.ids + aligned(listed * sizeof(int32_t));
  layout.slices = layout.masks + aligned(words * sizeof(uint64_t));
  layout.likely = layout.slices + aligned(drawn.size() * kSampleSlices * sizeof(SampleSlice));
  layout.end = layout.likely + drawn.size() * sizeof(LikelyTokens);
  return layout;
}

Sampler::~Sampler() {
  if (drawn_event_ != nullptr) ignore_failure(cudaEventDestroy(drawn_event_));
}

bool Sampler::reserve(size_t bytes, size_t results) {
  if (bytes > device_.bytes()) {
    auto device = allocate_device(2 * bytes);
    auto pinned = allocate_pinned(2 * bytes);
    if (!device.ok() || !pinned.ok()) return false;
    device_ = std::move(device).value();
    pinned_ = std::move(pinned).value();
  }
  if (results <= results_.bytes()) return true;
  auto larger = allocate_pinned(2 * results);
  if (larger.ok()) results_ = std::move(larger).value();
  return larger.ok();
}

bool Sampler::pack(const Queue& queue, std::span<const SampleRow> rows) {
  drawn_.clear(), undrawn_.clear();
  for (size_t i = 0; i < rows.size(); i++) {
    (draws(rows[i]) ? drawn_ : undrawn_).push_back(i);
  }
  surveyed_ = std::all_of(rows.begin(), rows.end(), survey_suffices);
  layout_ = layout_of(rows, drawn_);
  if (!reserve(layout_.end, drawn_.size() * sizeof(SampleResult))) return false;
  auto* jobs = at<SampleJob>(pinned_, 0);
  Lists lists{{at<SampleChange>(pinned_, layout_.changes)},
              {at<int32_t>(pinned_, layout_.ids)},
              {at<uint64_t>(pinned_, layout_.masks)}};
  for (size_t i = 0; i < drawn_.size(); i++) jobs[i] = job_of(rows[drawn_[i]], lists);
  FULMAR_GPU(
      cudaMemcpyAsync(device_.data(), pinned_.data(), layout_.slices, cudaMemcpyHostToDevice, queue.stream));
  return true;
}

int64_t Sampler::count_from(int64_t first) const { return std::min(kMostAtOnce, packed() - first); }

SampleLists Sampler::lists() const {
  return {at<SampleChange>(device_, layout_.changes), at<int32_t>(device_, layout_.ids),
          at<uint64_t>(device_, layout_.masks)};
}

SampleJobs Sampler::jobs_from(int64_t first, int64_t vocab) const {
  return {count_from(first), at<SampleJob>(device_, 0) + first, lists(), vocab};
}

void Sampler::survey(const Queue& queue, int64_t first, VocabularyPart& part, int64_t vocab) {
  part.slices = at<SampleSlice>(device_, layout_.slices) + first * kSampleSlices;
  gpu::survey(queue, jobs_from(first, vocab), part);
}

void Sampler::draw_parts(const Queue& queue, int64_t first, const VocabularyParts& parts, int64_t vocab,
                         float* work) {
  const SampleJobs jobs = jobs_from(first, vocab);
  auto* results = at<SampleResult>(results_, 0) + first;
  if (surveyed_) return gpu::draw_surveyed(queue, jobs, parts, results);
  gpu::draw(queue, jobs, parts, work, results, at<LikelyTokens>(pinned_, layout_.likely) + first);
}

void Sampler::all_begun(const Queue& queue) {
  if (drawn_event_ == nullptr) FULMAR_GPU(cudaEventCreateWithFlags(&drawn_event_, cudaEventDisableTiming));
  FULMAR_GPU(cudaEventRecord(drawn_event_, queue.stream));
}

void Sampler::finish(std::span<SampledToken> out) {
  FULMAR_GPU(cudaEventSynchronize(drawn_event_));
  const auto* jobs = at<SampleJob>(pinned_, 0);
  const auto* likely = at<LikelyTokens>(pinned_, layout_.likely);
  for (size_t i = 0; i < drawn_.size(); i++) out[drawn_[i]] = token_of(jobs[i], results()[i], likely[i]);
}

bool Sampler::begin(const Queue& queue, Tensor logits, std::span<const SampleRow> rows, Tensor work) {
  if (!pack(queue, rows)) return false;
  VocabularyParts whole{.count = 1};
  whole.part[0] = {logits.as<const float>(),     logits.stride, work.as<float>(), logits.cols, nullptr, 0,
                   static_cast<int>(logits.cols)};
  for (int64_t first = 0; first < packed(); first += kMostAtOnce) {
    survey(queue, first, whole.part[0], logits.cols);
    draw_parts(queue, first, whole, logits.cols, work.as<float>());
  }
  all_begun(queue);
  return true;
}

}  // namespace fulmar::gpu
