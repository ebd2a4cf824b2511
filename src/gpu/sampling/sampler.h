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
  static constexpr int64_t kMostAtOnce = 256;  // rows of one launch: bounds the working memory

  // Fills out[i] for the rows that it draws and returns the indices of the others, which are the host's: long
  // lists of likely tokens, and all where memory for the parameters is short. `work` is f32, [rows or
  // kMostAtOnce, V].
  std::vector<size_t> draw(const Queue& queue, Tensor logits, std::span<const SampleRow> rows,
                           std::span<SampledToken> out, Tensor work);

 private:
  bool reserve(size_t bytes);

  Buffer pinned_, device_;  // laid out alike: the packed input, what the device notes, the results
};

}  // namespace fulmar::gpu
