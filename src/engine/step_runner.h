// Runs one step on the device: packs the planned tokens of the sequences, calls the model, draws the tokens.
// In two halves, so that the host can do other work while the device computes. Owns nothing but buffers of
// its own; which sequences run is decided elsewhere.
#pragma once

#include <cstdint>
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
};

class StepRunner {
 public:
  StepRunner(Model& model, Ops& ops) : model_(model), ops_(ops) {}

  // Whether the device is still at the step when `begin` returns.
  bool asynchronous() const { return ops_.asynchronous(); }

  // Feeds the parts to the model.
  void begin(std::span<const StepPart> parts, const State& state);

  // Waits for what was begun with the same parts and advances `fed` and `drawn_fed`. Rows whose feed is now
  // used up and that still want tokens get one drawn: `drawn[i]` belongs to parts[i] where `has_token[i]` is
  // set.
  struct Outcome {
    std::vector<SampledToken> drawn;
    std::vector<bool> has_token;
  };
  Outcome finish(std::span<const StepPart> parts);

 private:
  void pack(std::span<const StepPart> parts);
  void draw(std::span<const StepPart> parts, Outcome& outcome);
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
  std::vector<Wanted> wanted_;
  Tensor logits_;  // of the step that was begun
  std::vector<float> host_row_;
  std::vector<double> mixed_;
};

}  // namespace fulmar
