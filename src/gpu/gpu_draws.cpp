#include "gpu/gpu_draws.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "gpu/device/peer_channel.h"

namespace fulmar {

using gpu::Sampler;
using gpu::VocabularyPart;
using gpu::VocabularyParts;

namespace {

Result<cudaEvent_t> make_event(int device) {
  cudaEvent_t event = nullptr;
  FULMAR_GPU_TRY(cudaSetDevice(device));
  FULMAR_GPU_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

}  // namespace

Result<std::unique_ptr<SharedDraws>> GpuDraws::open(std::span<Ops* const> group, int64_t vocab,
                                                    std::chrono::milliseconds timeout) {
  std::vector<GpuOps*> devices;
  for (Ops* ops : group) devices.push_back(dynamic_cast<GpuOps*>(ops));
  const bool suits = devices.size() <= gpu::kMostParts &&
                     std::find(devices.begin(), devices.end(), nullptr) == devices.end();
  if (!suits) return std::unique_ptr<SharedDraws>();
  const int first = devices.front()->facts_.index;
  std::vector<End> ends;
  for (GpuOps* device : devices) {
    const int index = device->facts_.index;
    if (index != first) {
      FULMAR_ASSIGN(const bool reaches, gpu::enable_peer_access(first, index));
      if (!reaches) return std::unique_ptr<SharedDraws>();
    }
    FULMAR_ASSIGN(const cudaEvent_t surveyed, make_event(index));
    ends.push_back({device, surveyed, 0, {}});
  }
  FULMAR_ASSIGN(const cudaEvent_t drawn, make_event(first));
  return std::unique_ptr<SharedDraws>(new GpuDraws(std::move(ends), drawn, vocab, timeout));
}

GpuDraws::~GpuDraws() {
  for (const End& end : ends_) gpu::ignore_failure(cudaEventDestroy(end.surveyed));
  gpu::ignore_failure(cudaEventDestroy(drawn_));
}

void GpuDraws::pack(GpuOps& ops, std::span<const SampleRow> rows) {
  if (ops.sampler_.pack(ops.queue_, rows)) return;
  throw DeviceFailure(ops.name() + " has no memory left for what " + std::to_string(rows.size()) +
                      " draws go by");
}

// Surveys a rank's shard; the other ranks' working memory is as wide as their shard of the vocabulary.
void GpuDraws::survey(size_t rank, Tensor part, int64_t first, std::span<const SampleRow> rows) {
  End& end = ends_[rank];
  GpuOps& ops = *end.ops;
  ops.use_device();
  FULMAR_GPU(cudaEventSynchronize(end.surveyed));  // the pinned buffer of the previous pack() has been read
  pack(ops, rows);
  GpuOps::Scratch scratch(ops);
  const int64_t most = std::clamp<int64_t>(ops.sampler_.packed(), 1, Sampler::kMostAtOnce);
  const Tensor work = scratch.take(most, part.cols, DType::f32);
  VocabularyPart own{part.as<const float>(),
                     part.stride,
                     work.as<float>(),
                     work.cols,
                     nullptr,
                     static_cast<int>(first),
                     static_cast<int>(first + part.cols)};
  for (int64_t at = 0; at == 0 || at < ops.sampler_.packed(); at += Sampler::kMostAtOnce) {
    ops.sampler_.survey(ops.queue_, at, own, vocab_);
    FULMAR_GPU(cudaEventRecord(end.surveyed, ops.queue_.stream));
    announce(end, own);
    wait_for_draw(rank);
  }
}

void GpuDraws::begin(Tensor part, std::span<const SampleRow> rows) {
  on_host_.clear();
  End& end = ends_.front();
  GpuOps& ops = *end.ops;
  ops.use_device();
  pack(ops, rows);
  GpuOps::Scratch scratch(ops);
  const int64_t most = std::clamp<int64_t>(ops.sampler_.packed(), 1, Sampler::kMostAtOnce);
  const Tensor work = scratch.take(most, vocab_, DType::f32);
  VocabularyPart own{part.as<const float>(),     part.stride, work.as<float>(), vocab_, nullptr, 0,
                     static_cast<int>(part.cols)};
  for (int64_t at = 0; at == 0 || at < ops.sampler_.packed(); at += Sampler::kMostAtOnce) {
    ops.sampler_.survey(ops.queue_, at, own, vocab_);
    announce(end, own);
    const VocabularyParts parts = wait_for_surveys();
    ops.sampler_.draw_parts(ops.queue_, at, parts, vocab_, work.as<float>());
    if (at + Sampler::kMostAtOnce >= ops.sampler_.packed()) draw_on_host(parts, rows);
    FULMAR_GPU(cudaEventRecord(drawn_, ops.queue_.stream));
    announce_draw();
  }
  ops.sampler_.all_begun(ops.queue_);
}

void GpuDraws::finish(std::span<SampledToken> out) {
  ends_.front().ops->finish_sample(out);
  for (auto& [row, token] : std::exchange(on_host_, {})) out[row] = std::move(token);
}

void GpuDraws::draw_on_host(const VocabularyParts& parts, std::span<const SampleRow> rows) {
  GpuOps& ops = *ends_.front().ops;
  std::vector<float> logits(static_cast<size_t>(vocab_));
  for (const size_t i : ops.sampler_.undrawn()) {
    for (int p = 0; p < parts.count; p++) {
      const VocabularyPart& part = parts.part[p];
      FULMAR_GPU(cudaMemcpyAsync(logits.data() + part.begin, part.logits + rows[i].logits_row * part.stride,
                                 static_cast<size_t>(part.end - part.begin) * sizeof(float),
                                 cudaMemcpyDeviceToHost, ops.queue_.stream));
    }
    FULMAR_GPU(cudaStreamSynchronize(ops.queue_.stream));
    on_host_.emplace_back(i, sample_row(logits, rows[i]));
  }
}

void GpuDraws::announce(End& end, const VocabularyPart& part) {
  const std::lock_guard lock(mutex_);
  end.launches++;
  end.part = part;
  changed_.notify_all();
}

void GpuDraws::announce_draw() {
  const std::lock_guard lock(mutex_);
  draws_++;
  changed_.notify_all();
}

// Waits while `late` returns a rank that is still missing, until it returns a negative number.
void GpuDraws::wait(std::unique_lock<std::mutex>& lock, size_t rank, const std::function<int64_t()>& late) {
  const bool come = changed_.wait_for(lock, timeout_, [&] { return closed_ || late() < 0; });
  if (closed_) throw DeviceFailure(reason_);
  if (come) return;
  const auto text = [&](size_t one) {
    return "rank " + std::to_string(one) + " (" + ends_[one].ops->name() + ")";
  };
  throw DeviceFailure(text(rank) + " has waited " + std::to_string(timeout_.count()) + " ms for " +
                      text(static_cast<size_t>(late())) + " to draw its part");
}

VocabularyParts GpuDraws::wait_for_surveys() {
  VocabularyParts parts{.count = static_cast<int>(ends_.size())};
  {
    std::unique_lock lock(mutex_);
    wait(lock, 0, [&] {
      for (size_t rank = 1; rank < ends_.size(); rank++) {
        if (ends_[rank].launches < ends_.front().launches) return static_cast<int64_t>(rank);
      }
      return int64_t{-1};
    });
    for (size_t rank = 0; rank < ends_.size(); rank++) parts.part[rank] = ends_[rank].part;
  }
  const cudaStream_t stream = ends_.front().ops->queue_.stream;
  for (size_t rank = 1; rank < ends_.size(); rank++) {
    FULMAR_GPU(cudaStreamWaitEvent(stream, ends_[rank].surveyed, 0));
  }
  return parts;
}

// Makes the rank's stream wait for the draw: nothing enqueued later overtakes it.
void GpuDraws::wait_for_draw(size_t rank) {
  {
    std::unique_lock lock(mutex_);
    wait(lock, rank, [&] { return draws_ < ends_[rank].launches ? int64_t{0} : int64_t{-1}; });
  }
  FULMAR_GPU(cudaStreamWaitEvent(ends_[rank].ops->queue_.stream, drawn_, 0));
}

void GpuDraws::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!closed_) reason_ = reason;
  closed_ = true;
  changed_.notify_all();
}

}  // namespace fulmar
