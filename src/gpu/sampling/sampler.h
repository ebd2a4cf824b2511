// Draws a step's tokens on the device: packs what the draws need into one copy; the tokens come straight to
// host memory.
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
  static constexpr int64_t kMostAtOnce = 512;  // rows of one launch: bounds the working memory

  Sampler() = default;
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Whether the device draws such a row; what it does not is the host's: long lists of likely tokens.
  static bool draws(const SampleRow& row) { return row.params->top_logprobs <= kMostLikeliest; }
  // Begins to draw the rows, but for those that are the host's (undrawn). `work` is f32, [rows or
  // kMostAtOnce, V]. False, and nothing is begun, where memory for the parameters is short.
  bool begin(const Queue& queue, Tensor logits, std::span<const SampleRow> rows, Tensor work);
  // Waits for the draws and fills `out` for the rows that were drawn.
  void finish(std::span<SampledToken> out);
  // Where draws put what they find, in the order of their rows: host memory that every device reads.
  const SampleResult* results() const { return static_cast<const SampleResult*>(results_.data()); }

  // begin() in steps, for a device that has some of the logits: what is packed is surveyed by each of them
  // and drawn by one, at most kMostAtOnce rows behind `first` at once.

  // Packs the rows and brings them to the device behind what the queue holds; nothing that was packed before
  // may still be on its way. False where memory is short.
  bool pack(const Queue& queue, std::span<const SampleRow> rows);
  int64_t packed() const { return static_cast<int64_t>(drawn_.size()); }
  const std::vector<size_t>& undrawn() const { return undrawn_; }  // rows that are the host's
  // Surveys the part of that vocabulary, whose memory for slices is this object's and filled in here.
  void survey(const Queue& queue, int64_t first, VocabularyPart& part, int64_t vocab);
  void draw_parts(const Queue& queue, int64_t first, const VocabularyParts& parts, int64_t vocab,
                  float* work);
  void all_begun(const Queue& queue);  // finish() is to wait for what the queue holds

 private:
  // Where the parts of the block lie. Those in front of the slices are copied to the device, where the slices
  // stay; lists of likely tokens are written to the host's block.
  struct Layout {
    size_t changes = 0, ids = 0, masks = 0, slices = 0, likely = 0, end = 0;
  };
  static Layout layout_of(std::span<const SampleRow> rows, std::span<const size_t> drawn);
  bool reserve(size_t bytes, size_t results);
  int64_t count_from(int64_t first) const;
  SampleLists lists() const;

  Buffer pinned_, device_;  // laid out alike: the packed input, what the device notes, the lists
  Buffer results_;          // pinned; apart, because a step may read it while the next draws are packed
  cudaEvent_t drawn_event_ = nullptr;
  Layout layout_;
  std::vector<size_t> drawn_, undrawn_;  // rows
  bool surveyed_ = false;                // survey_suffices for all rows
};

}  // namespace fulmar::gpu
