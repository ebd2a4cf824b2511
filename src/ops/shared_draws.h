// Draws by ranks that each have a part of the vocabulary: every rank surveys its own logits in place, and the
// first one draws from all surveys. With equal logits the draw has the same bits as on one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ops/sampling.h"
#include "tensor/tensor.h"

namespace fulmar {

class SharedDraws {
 public:
  virtual ~SharedDraws() = default;

  // Surveys a part: `part`, f32 [rows, n], has the logits of the ids from `first` on. Call on the thread of
  // each rank but the first, once for each draw of the first, with the same rows. Work enqueued later may
  // overwrite the logits.
  virtual void survey(size_t rank, Tensor part, int64_t first, std::span<const SampleRow> rows) = 0;
  // Enqueues the draws, as Ops::begin_sample does. Call on the thread of the first rank. Work that any rank
  // enqueues later runs after the draws.
  virtual void begin(Tensor part, std::span<const SampleRow> rows) = 0;
  // Waits for the draws, as Ops::finish_sample does. Call on the thread of the first rank.
  virtual void finish(std::span<SampledToken> out) = 0;
  void draw(Tensor part, std::span<const SampleRow> rows, std::span<SampledToken> out) {
    begin(part, rows);
    finish(out);
  }
  // Makes all calls throw DeviceFailure with this reason from now on, also where they wait. Call from any
  // thread.
  virtual void close(const std::string& reason) = 0;
};

}  // namespace fulmar
