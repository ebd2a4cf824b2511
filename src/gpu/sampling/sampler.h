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

  // Fills out[i] for the rows that it draws and returns the indices of the others, which are the host's: long
  // lists of likely tokens, and all where memory for the parameters is short. `work` is f32, [rows or
  // kMostAtOnce, V].
  std::vector<size_t> draw(const Queue& queue, Tensor logits, std::span<const SampleRow> rows,
                           std::span<SampledToken> out, Tensor work);

  // The same in steps, for a device that has some of the logits: what is packed is surveyed by each of them
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
  // Waits for the queue and fills `out` for the rows that were drawn.
  void finish(const Queue& queue, std::span<SampledToken> out);

 private:
  // Where the parts of the block lie. Those in front of the slices are copied to the device, where the slices
  // stay; the results are written to the host's block.
  struct Layout {
    size_t changes = 0, ids = 0, masks = 0, slices = 0, results = 0, likely = 0, end = 0;
  };
  static Layout layout_of(std::span<const SampleRow> rows, std::span<const size_t> drawn);
  bool reserve(size_t bytes);
  int64_t count_from(int64_t first) const;
  SampleLists lists() const;

  Buffer pinned_, device_;  // laid out alike: the packed input, what the device notes, the results
  Layout layout_;
  std::vector<size_t> drawn_, undrawn_;  // rows
  bool surveyed_ = false;                // survey_suffices for all rows
};

}  // namespace fulmar::gpu
