// Draws by ranks that have a part of the vocabulary each: every rank surveys its own logits where they lie,
// and the first one draws from all surveys. With equal logits the draw has the bits of a lone device's.
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

  // On the thread of each rank but the first, for each draw of the first, with the same rows: `part`, f32
  // [rows, n], has the logits of the ids from `first` on. Work begun behind this may write to them again.
  virtual void survey(size_t rank, Tensor part, int64_t first, std::span<const SampleRow> rows) = 0;
  // On the thread of the first rank: as Ops::begin_sample and Ops::finish_sample. Work that any rank begins
  // behind this comes behind the draws.
  virtual void begin(Tensor part, std::span<const SampleRow> rows) = 0;
  virtual void finish(std::span<SampledToken> out) = 0;
  void draw(Tensor part, std::span<const SampleRow> rows, std::span<SampledToken> out) {
    begin(part, rows);
    finish(out);
  }
  // From any thread: from now on all calls throw DeviceFailure with this reason, also where they wait.
  virtual void close(const std::string& reason) = 0;
};

}  // namespace fulmar
