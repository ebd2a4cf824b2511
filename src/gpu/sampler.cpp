#include "gpu/sampler.h"

#include <algorithm>

#include "base/check.h"

namespace fulmar::gpu {

namespace {

constexpr float kSmallestTemperature = 0.001f;
constexpr size_t kMostAtOnce = 256;  // bounds the working memory to as many rows of logits

// What the jobs of one launch refer to.
struct Lists {
  std::vector<SampleChange> changes;
  std::vector<int32_t> bans;
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
  job.bans = static_cast<int32_t>(lists.bans.size());
  lists.bans.insert(lists.bans.end(), params.banned.begin(), params.banned.end());
  lists.bans.insert(lists.bans.end(), row.banned_here.begin(), row.banned_here.end());
  job.banned = static_cast<int32_t>(lists.bans.size()) - job.bans;
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

}  // namespace

Sampler::~Sampler() {
  if (pinned_ != nullptr) FULMAR_GPU(cudaFreeHost(pinned_));
}

bool Sampler::draws(const SampleRow& row) { return row.params->top_logprobs <= kMostLikeliest; }

void Sampler::reserve(size_t bytes) {
  if (bytes <= device_.bytes()) return;
  auto grown = allocate_device(2 * bytes);
  FULMAR_CHECK(grown.ok(), "memory for the parameters of sampling");
  device_ = std::move(grown).value();
  if (pinned_ != nullptr) FULMAR_GPU(cudaFreeHost(pinned_));
  FULMAR_GPU(cudaMallocHost(&pinned_, 2 * bytes));
}

std::vector<size_t> Sampler::draw(const Queue& queue, Tensor logits, std::span<const SampleRow> rows,
                                  std::span<SampledToken> out, const std::function<float*(int64_t)>& work) {
  std::vector<size_t> drawn, left;
  for (size_t i = 0; i < rows.size(); i++) (draws(rows[i]) ? drawn : left).push_back(i);
  for (size_t first = 0; first < drawn.size(); first += kMostAtOnce) {
    const size_t count = std::min(kMostAtOnce, drawn.size() - first);
    std::vector<SampleJob> jobs;
    Lists lists;
    bool lists_likely = false;
    for (size_t i = 0; i < count; i++) {
      jobs.push_back(job_of(rows[drawn[first + i]], lists));
      lists_likely = lists_likely || jobs.back().likeliest > 0;
    }

    // One block of memory, on both sides: what goes in, then what comes out.
    const size_t changes_at = aligned(count * sizeof(SampleJob));
    const size_t bans_at = changes_at + aligned(lists.changes.size() * sizeof(SampleChange));
    const size_t masks_at = bans_at + aligned(lists.bans.size() * sizeof(int32_t));
    const size_t results_at = masks_at + aligned(lists.masks.size() * sizeof(uint64_t));
    const size_t likely_at = results_at + aligned(count * sizeof(SampleResult));
    reserve(likely_at + count * sizeof(LikelyTokens));
    auto* host = static_cast<std::byte*>(pinned_);
    auto* device = static_cast<std::byte*>(device_.data());
    std::copy(jobs.begin(), jobs.end(), reinterpret_cast<SampleJob*>(host));
    std::copy(lists.changes.begin(), lists.changes.end(), reinterpret_cast<SampleChange*>(host + changes_at));
    std::copy(lists.bans.begin(), lists.bans.end(), reinterpret_cast<int32_t*>(host + bans_at));
    std::copy(lists.masks.begin(), lists.masks.end(), reinterpret_cast<uint64_t*>(host + masks_at));
    FULMAR_GPU(cudaMemcpyAsync(device, host, results_at, cudaMemcpyHostToDevice, queue.stream));
    sample(queue, static_cast<int64_t>(count), reinterpret_cast<const SampleJob*>(device),
           {reinterpret_cast<const SampleChange*>(device + changes_at),
            reinterpret_cast<const int32_t*>(device + bans_at),
            reinterpret_cast<const uint64_t*>(device + masks_at)},
           logits, work(static_cast<int64_t>(count) * logits.cols),
           reinterpret_cast<SampleResult*>(device + results_at),
           reinterpret_cast<LikelyTokens*>(device + likely_at));
    const size_t returned =
        lists_likely ? likely_at - results_at + count * sizeof(LikelyTokens) : count * sizeof(SampleResult);
    FULMAR_GPU(cudaMemcpyAsync(host + results_at, device + results_at, returned, cudaMemcpyDeviceToHost,
                               queue.stream));
    FULMAR_GPU(cudaStreamSynchronize(queue.stream));
    const auto* results = reinterpret_cast<const SampleResult*>(host + results_at);
    const auto* likely = reinterpret_cast<const LikelyTokens*>(host + likely_at);
    for (size_t i = 0; i < count; i++) {
      const size_t row = drawn[first + i];
      if (results[i].done == 0) {
        left.push_back(row);
        continue;
      }
      SampledToken& token = out[row];
      token = {results[i].token, results[i].logprob, {}};
      for (int n = 0; jobs[i].likeliest > 0 && n < likely[i].count; n++) {
        token.top.push_back({likely[i].token[n], likely[i].logprob[n]});
      }
    }
  }
  return left;
}

}  // namespace fulmar::gpu
