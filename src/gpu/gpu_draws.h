// Draws from logits that lie on several GPUs: each surveys its part of the vocabulary, and the first one
// draws, reading of the others' logits what it needs where they lie. Between their queues are events; hosts
// meet to exchange them, while the devices still compute.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_ops.h"
#include "ops/shared_draws.h"

namespace fulmar {

class GpuDraws final : public SharedDraws {
 public:
  // Null where the first GPU cannot reach the memory of all others, or is not one, and for more than
  // gpu::kMostParts. The devices outlive the object.
  static Result<std::unique_ptr<SharedDraws>> open(std::span<Ops* const> group, int64_t vocab,
                                                   std::chrono::milliseconds timeout);
  ~GpuDraws() override;

  void survey(size_t rank, Tensor part, int64_t first, std::span<const SampleRow> rows) override;
  void begin(Tensor part, std::span<const SampleRow> rows) override;
  void finish(std::span<SampledToken> out) override;
  void close(const std::string& reason) override;

 private:
  // A rank's end; what it has surveyed so far, counted in launches, is under the mutex, as is where that
  // lies.
  struct End {
    GpuOps* ops;
    cudaEvent_t surveyed;
    int64_t launches = 0;
    gpu::VocabularyPart part;
  };

  GpuDraws(std::vector<End> ends, cudaEvent_t drawn, int64_t vocab, std::chrono::milliseconds timeout)
      : ends_(std::move(ends)), drawn_(drawn), vocab_(vocab), timeout_(timeout) {}

  static void pack(GpuOps& ops, std::span<const SampleRow> rows);
  void announce(End& end, const gpu::VocabularyPart& part);
  // Waits until all have surveyed what the first one has; where their parts lie.
  gpu::VocabularyParts wait_for_surveys();
  void announce_draw();
  void wait_for_draw(size_t rank);
  // Rows that the host draws, from logits brought there.
  void draw_on_host(const gpu::VocabularyParts& parts, std::span<const SampleRow> rows);
  void wait(std::unique_lock<std::mutex>& lock, size_t rank, const std::function<int64_t()>& late);

  std::vector<End> ends_;
  std::vector<std::pair<size_t, SampledToken>> on_host_;  // of the draws that are to be finished
  const cudaEvent_t drawn_;                               // of the first rank
  const int64_t vocab_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t draws_ = 0;  // launches that have been drawn from
  bool closed_ = false;
  std::string reason_;
};

}  // namespace fulmar
