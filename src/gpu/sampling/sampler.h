// Draws a step's tokens on the device: packs the draws' parameters into one copy; tokens are written directly
// to host memory.
#pragma once

#include <span>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/memory.h"
#include "gpu/sampling/sample.h"
#include "ops/sampling.h"

namespace fulmar::gpu {

class Sampler {
 public:
  static constexpr int64_t kMostAtOnce = 512;  // rows of a launch; bounds the working memory

  Sampler() = default;
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Returns whether the device draws such a row; the host draws those with long lists of likely tokens.
  static bool draws(const SampleRow& row) { return row.params->top_logprobs <= kMostLikeliest; }
  // Enqueues the draws of all rows but those left to the host (undrawn). `work`: f32 [min(rows, kMostAtOnce),
  // V]. Returns false, with nothing enqueued, where memory for the parameters is short.
  bool begin(const Queue& queue, Tensor logits, std::span<const SampleRow> rows, Tensor work);
  // Waits for the draws and fills `out` for the rows that were drawn.
  void finish(std::span<SampledToken> out);
  // Returns the draws' results, in the order of their rows, in host memory that every device reads.
  const SampleResult* results() const { return static_cast<const SampleResult*>(results_.data()); }

  // The steps of begin(), for ranks that each have a part of the logits: each rank surveys what was packed
  // and one draws, at most kMostAtOnce rows from `first` on per call.

  // Packs the rows and copies them to the device in stream order; the copy of an earlier pack() must have
  // finished. Returns false where memory is short.
  bool pack(const Queue& queue, std::span<const SampleRow> rows);
  int64_t packed() const { return static_cast<int64_t>(drawn_.size()); }
  const std::vector<size_t>& undrawn() const { return undrawn_; }  // rows that the host draws
  // Surveys a part of the vocabulary; sets part.slices to memory of this object.
  void survey(const Queue& queue, int64_t first, VocabularyPart& part, int64_t vocab);
  void draw_parts(const Queue& queue, int64_t first, const VocabularyParts& parts, int64_t vocab,
                  float* work);
  void all_begun(const Queue& queue);  // marks the point that finish() waits for

 private:
  // Offsets of the arrays in a block. Those before `slices` are copied to the device, the slices exist on the
  // device alone, and lists of likely tokens are written to the host's block.
  struct Layout {
    size_t changes = 0, ids = 0, masks = 0, slices = 0, likely = 0, end = 0;
  };
  static Layout layout_of(std::span<const SampleRow> rows, std::span<const size_t> drawn);
  bool reserve(size_t bytes, size_t results);
  int64_t count_from(int64_t first) const;
  SampleLists lists() const;
  SampleJobs jobs_from(int64_t first, int64_t vocab) const;

  Buffer pinned_, device_;  // same layout: packed input, device scratch, lists
  Buffer results_;          // pinned; apart, because a step may read it while the next draws are packed
  cudaEvent_t drawn_event_ = nullptr;
  Layout layout_;
  std::vector<size_t> drawn_, undrawn_;  // indices of rows
  bool surveyed_ = false;                // survey_suffices for all rows
};

}  // namespace fulmar::gpu
