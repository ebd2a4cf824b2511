#include "gpu/sampler.h"

#include <cstring>

#include "base/check.h"

namespace fulmar::gpu {

namespace {

constexpr float kSmallestTemperature = 0.001f;
constexpr size_t kMostAtOnce = 256;  // bounds the working memory to as many rows of logits

SampleJob job_of(const SampleRow& row, std::vector<SampleChange>& changes, std::vector<int32_t>& bans) {
  const SamplingParams& params = *row.params;
  SampleJob job;
  job.logits_row = row.logits_row;
  job.seed = params.seed;
  job.position = row.position;
  job.changes = static_cast<int32_t>(changes.size());
  for (const auto& [token, bias] : params.logit_bias) changes.push_back({token, bias});
  job.biases = static_cast<int32_t>(params.logit_bias.size());
  if (row.memory != nullptr && params.penalised()) {
    for (const auto& [token, penalty] : row.memory->seen) changes.push_back({token, -penalty});
    job.penalties = static_cast<int32_t>(row.memory->seen.size());
  }
  job.bans = static_cast<int32_t>(bans.size());
  bans.insert(bans.end(), params.banned.begin(), params.banned.end());
  bans.insert(bans.end(), row.banned_here.begin(), row.banned_here.end());
  job.banned = static_cast<int32_t>(bans.size()) - job.bans;
  job.top_k = params.top_k;
  job.top_p = params.top_p;
  job.min_p = params.min_p;
  job.inverse_temperature = params.temperature < kSmallestTemperature ? 1.0f : 1.0f / params.temperature;
  job.greedy = params.greedy() ? 1 : 0;
  job.logprob = params.top_logprobs >= 0 ? 1 : 0;
  return job;
}

size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

Sampler::~Sampler() {
  if (pinned_ != nullptr) FULMAR_GPU(cudaFreeHost(pinned_));
}

bool Sampler::draws(const SampleRow& row) {
  return row.allowed.empty() && row.params->noise == NoiseKind::none && !row.params->temperature_last &&
         row.params->top_logprobs <= 0;
}

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
    std::vector<SampleChange> changes;
    std::vector<int32_t> bans;
    for (size_t i = 0; i < count; i++) jobs.push_back(job_of(rows[drawn[first + i]], changes, bans));

    const size_t changes_at = aligned(count * sizeof(SampleJob));
    const size_t bans_at = changes_at + aligned(changes.size() * sizeof(SampleChange));
    const size_t results_at = bans_at + aligned(bans.size() * sizeof(int32_t));
    reserve(results_at + count * sizeof(SampleResult));
    auto* host = static_cast<std::byte*>(pinned_);
    auto* device = static_cast<std::byte*>(device_.data());
    std::memcpy(host, jobs.data(), count * sizeof(SampleJob));
    std::copy(changes.begin(), changes.end(), reinterpret_cast<SampleChange*>(host + changes_at));
    std::copy(bans.begin(), bans.end(), reinterpret_cast<int32_t*>(host + bans_at));
    auto* results = reinterpret_cast<SampleResult*>(host + results_at);
    FULMAR_GPU(cudaMemcpyAsync(device, host, results_at, cudaMemcpyHostToDevice, queue.stream));
    sample(queue, static_cast<int64_t>(count), reinterpret_cast<const SampleJob*>(device),
           reinterpret_cast<const SampleChange*>(device + changes_at),
           reinterpret_cast<const int32_t*>(device + bans_at), logits,
           work(static_cast<int64_t>(count) * logits.cols),
           reinterpret_cast<SampleResult*>(device + results_at));
    FULMAR_GPU(cudaMemcpyAsync(results, device + results_at, count * sizeof(SampleResult),
                               cudaMemcpyDeviceToHost, queue.stream));
    FULMAR_GPU(cudaStreamSynchronize(queue.stream));
    for (size_t i = 0; i < count; i++) {
      const size_t row = drawn[first + i];
      if (results[i].done != 0) {
        out[row] = {results[i].token, results[i].logprob, {}};
      } else {
        left.push_back(row);
      }
    }
  }
  return left;
}

}  // namespace fulmar::gpu
