#include "gpu/sampler.h"

#include <algorithm>

namespace fulmar::gpu {

namespace {

constexpr float kSmallestTemperature = 0.001f;

// What the jobs of one launch refer to.
struct Lists {
  std::vector<SampleChange> changes;
  std::vector<int32_t> ids;
  std::vector<uint64_t> masks;
};

SampleJob job_of(const SampleRow& row, Lists& lists) {
  const SamplingParams& params = *row.params;
  SampleJob job;
  job.logits_row = row.logits_row;
  job.seed = params.seed;
  job.position = row.position;
  job.changes = static_cast<int32_t>(lists.changes.size());
  for (const auto& [token, bias] : params.logit_bias) lists.changes.push_back({token, bias});
  job.biases = static_cast<int32_t>(params.logit_bias.size());
  if (row.memory != nullptr && params.penalised()) {
    for (const auto& [token, penalty] : row.memory->seen) lists.changes.push_back({token, -penalty});
    job.penalties = static_cast<int32_t>(row.memory->seen.size());
  }
  job.bans = static_cast<int32_t>(lists.ids.size());
  lists.ids.insert(lists.ids.end(), params.banned.begin(), params.banned.end());
  lists.ids.insert(lists.ids.end(), row.banned_here.begin(), row.banned_here.end());
  job.banned = static_cast<int32_t>(lists.ids.size()) - job.bans;
  job.stops = static_cast<int32_t>(lists.ids.size());
  job.stop_count = static_cast<int32_t>(row.stops.size());
  lists.ids.insert(lists.ids.end(), row.stops.begin(), row.stops.end());
  job.masks = static_cast<int32_t>(lists.masks.size());
  job.mask_words = static_cast<int32_t>(row.allowed.size());
  lists.masks.insert(lists.masks.end(), row.allowed.begin(), row.allowed.end());
  job.top_k = params.top_k;
  job.top_p = params.top_p;
  job.min_p = params.min_p;
  // Which of them holds: as in sample_row.
  const bool cold = params.temperature < kSmallestTemperature;
  const bool noisy = params.noise != NoiseKind::none && !cold;
  job.greedy = (params.noise != NoiseKind::none ? cold : params.greedy()) ? 1 : 0;
  job.noise = noisy ? static_cast<int32_t>(params.noise) : 0;
  job.noise_scale = params.noise_scale;
  const bool later = params.temperature_last && !noisy;
  job.inverse_temperature = cold || later ? 1.0f : 1.0f / params.temperature;
  job.power = later && !cold ? 1.0 / params.temperature : 0;
  job.logprob = params.top_logprobs >= 0 ? 1 : 0;
  job.likeliest = std::max(params.top_logprobs, 0);
  return job;
}

size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

// Where the parts of the block lie. Those in front of the slices are copied to the device, where the slices
// stay; the results are written to the host's block.
struct Layout {
  size_t changes, ids, masks, slices, results, likely, end;

  Layout(size_t count, const Lists& lists) {
    changes = aligned(count * sizeof(SampleJob));
    ids = changes + aligned(lists.changes.size() * sizeof(SampleChange));
    masks = ids + aligned(lists.ids.size() * sizeof(int32_t));
    slices = masks + aligned(lists.masks.size() * sizeof(uint64_t));
    results = slices + aligned(count * kSampleSlices * sizeof(SampleSlice));
    likely = results + aligned(count * sizeof(SampleResult));
    end = likely + count * sizeof(LikelyTokens);
  }
};

template <class T>
T* at(const Buffer& block, size_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(block.data()) + offset);
}

SampledToken token_of(const SampleJob& job, const SampleResult& result, const LikelyTokens& likely) {
  SampledToken token{result.token, result.logprob, {}, result.stops != 0};
  for (int n = 0; job.likeliest > 0 && n < likely.count; n++) {
    token.top.push_back({likely.token[n], likely.logprob[n]});
  }
  return token;
}

}  // namespace

bool Sampler::reserve(size_t bytes) {
  if (bytes <= device_.bytes()) return true;
  auto device = allocate_device(2 * bytes);
  auto pinned = allocate_pinned(2 * bytes);
  if (!device.ok() || !pinned.ok()) return false;
  device_ = std::move(device).value();
  pinned_ = std::move(pinned).value();
  return true;
}

std::vector<size_t> Sampler::draw(const Queue& queue, Tensor logits, std::span<const SampleRow> rows,
                                  std::span<SampledToken> out, Tensor work) {
  std::vector<size_t> drawn, left;
  std::vector<SampleJob> jobs;
  Lists lists;
  for (size_t i = 0; i < rows.size(); i++) {
    if (rows[i].params->top_logprobs > kMostLikeliest) {
      left.push_back(i);
      continue;
    }
    drawn.push_back(i);
    jobs.push_back(job_of(rows[i], lists));
  }
  const Layout layout(jobs.size(), lists);
  if (!reserve(layout.end)) {
    left.insert(left.end(), drawn.begin(), drawn.end());
    return left;
  }

  std::copy(jobs.begin(), jobs.end(), at<SampleJob>(pinned_, 0));
  std::copy(lists.changes.begin(), lists.changes.end(), at<SampleChange>(pinned_, layout.changes));
  std::copy(lists.ids.begin(), lists.ids.end(), at<int32_t>(pinned_, layout.ids));
  std::copy(lists.masks.begin(), lists.masks.end(), at<uint64_t>(pinned_, layout.masks));
  FULMAR_GPU(
      cudaMemcpyAsync(device_.data(), pinned_.data(), layout.slices, cudaMemcpyHostToDevice, queue.stream));
  auto* results = at<SampleResult>(pinned_, layout.results);
  auto* likely = at<LikelyTokens>(pinned_, layout.likely);
  const auto count = static_cast<int64_t>(jobs.size());
  for (int64_t first = 0; first < count; first += kMostAtOnce) {
    sample(queue, std::min(kMostAtOnce, count - first), at<SampleJob>(device_, 0) + first,
           {at<SampleChange>(device_, layout.changes), at<int32_t>(device_, layout.ids),
            at<uint64_t>(device_, layout.masks)},
           logits, work.as<float>(), at<SampleSlice>(device_, layout.slices) + first * kSampleSlices,
           results + first, likely + first);
  }
  FULMAR_GPU(cudaStreamSynchronize(queue.stream));
  for (size_t i = 0; i < drawn.size(); i++) {
    if (results[i].done == 0) {
      left.push_back(drawn[i]);
    } else {
      out[drawn[i]] = token_of(jobs[i], results[i], likely[i]);
    }
  }
  return left;
}

}  // namespace fulmar::gpu
