// Runs one step on the device: packs the planned tokens of the sequences, calls the model, draws the tokens.
// In two halves, so that the host can do other work while the device computes. Owns nothing but buffers of
// its own; which sequences run is decided elsewhere.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/model.h"
#include "ops/ops.h"

namespace fulmar {

// One sequence's part in a step.
struct StepPart {
  Sequence* sequence = nullptr;
  int64_t count = 0;  // tokens of sequence->ready() to feed, at least 1
  int64_t drafts =
      0;  // tokens of sequence->drafts to feed behind all that is ready, whose rows can be rolled back
};

class StepRunner {
 public:
  StepRunner(Model& model, Ops& ops) : model_(model), ops_(ops) {}

  // Whether the device is still at the step when `begin` returns.
  bool asynchronous() const { return ops_.asynchronous(); }

  // Of the step that was begun last.
  int64_t rows() const { return static_cast<int64_t>(token_.size()); }

  // Feeds the parts to the model.
  void begin(std::span<const StepPart> parts, const State& state);

  // Waits for what was begun with the same parts and advances `fed` and `drawn_fed`, drafts not counted. Rows
  // whose feed is now used up and that still want tokens get them drawn: `drawn[i]`, of parts[i], is empty,
  // or one token and another behind each draft that was accepted.
  struct Outcome {
    std::vector<std::vector<SampledToken>> drawn;
  };
  Outcome finish(std::span<const StepPart> parts);

 private:
  void pack(std::span<const StepPart> parts);
  void draw(std::span<const StepPart> parts, Outcome& outcome);
  void add_rows(const StepPart& part, int32_t first_row, std::vector<SampleRow>& rows);
  void mix(const Sequence& sequence, int64_t first_row);
  void score(std::span<const StepPart> parts);
  void pool_hidden(std::span<const StepPart> parts);

  // What a part wants back from the model, as a range of wanted rows.
  struct Wanted {
    int32_t first = 0;
    int32_t count = 0;
    bool draws = false;
  };

  Model& model_;
  Ops& ops_;
  std::vector<int32_t> token_, start_, slot_, wanted_row_;
  std::vector<uint8_t> revocable_;
  std::deque<PenaltyMemory> memories_;  // of rows behind drafts, as they are if those are accepted
  std::vector<Wanted> wanted_;
  Tensor logits_;  // of the step that was begun
  std::vector<float> host_row_;
  std::vector<double> mixed_;
};

}  // namespace fulmar
