// Draws a step's tokens on the device: packs what the draws need into one copy, reads the tokens back in one.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "gpu/device.h"
#include "gpu/sample.h"
#include "ops/sampling.h"

namespace fulmar::gpu {

class Sampler {
 public:
  Sampler() = default;
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Not what only the host's reference does: long lists of likely tokens.
  static bool draws(const SampleRow& row);

  // Fills out[i] for the rows that it draws and returns the indices of the others. `work` gives f32 memory
  // for so many numbers until the call returns.
  std::vector<size_t> draw(const Queue& queue, Tensor logits, std::span<const SampleRow> rows,
                           std::span<SampledToken> out, const std::function<float*(int64_t)>& work);

 private:
  void reserve(size_t bytes);

  void* pinned_ = nullptr;  // the packed input, then the results
  Buffer device_;
};

}  // namespace fulmar::gpu
