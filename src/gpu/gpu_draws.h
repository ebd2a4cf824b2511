// Draws tokens from logits that are sharded by vocabulary over several GPUs: each GPU surveys its shard, and
// the first one draws, reading the few other logits that it needs by peer access. Events order the streams;
// the host threads meet to exchange them while the devices still compute.
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
  // Returns null where the first device is no GPU or lacks peer access to all others, and for more than
  // gpu::kMostParts of them. The devices outlive the object.
  static Result<std::unique_ptr<SharedDraws>> open(std::span<Ops* const> group, int64_t vocab,
                                                   std::chrono::milliseconds timeout);
  ~GpuDraws() override;

  void survey(size_t rank, Tensor part, int64_t first, std::span<const SampleRow> rows) override;
  void begin(Tensor part, std::span<const SampleRow> rows) override;
  void finish(std::span<SampledToken> out) override;
  void close(const std::string& reason) override;

 private:
  // One rank's end. `launches` (surveys enqueued so far) and `part` are guarded by the mutex.
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
  // Waits until every rank has enqueued the survey that the first one draws from; returns all shards.
  gpu::VocabularyParts wait_for_surveys();
  void announce_draw();
  void wait_for_draw(size_t rank);
  // Copies the logits of these rows to the host and draws there.
  void draw_on_host(const gpu::VocabularyParts& parts, std::span<const SampleRow> rows);
  void wait(std::unique_lock<std::mutex>& lock, size_t rank, const std::function<int64_t()>& late);

  std::vector<End> ends_;
  std::vector<std::pair<size_t, SampledToken>> on_host_;  // indices into finish()'s `out`
  const cudaEvent_t drawn_;                               // recorded by the first rank
  const int64_t vocab_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t draws_ = 0;  // surveys that have been drawn from
  bool closed_ = false;
  std::string reason_;
};

}  // namespace fulmar
