// Runs steps on the model's devices: packs the planned tokens of the sequences, calls the model, draws the
// tokens. In two halves, so that the host can do other work while devices compute, and so that several steps
// can be under way (micro-batches of a pipeline). Which sequences run is decided elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/model.h"

namespace fulmar {

// One sequence's part in a step.
struct StepPart {
  Sequence* sequence = nullptr;
  int64_t count = 0;  // tokens of sequence->ready() to feed, at least 1
  // Tokens of sequence->drafts to feed behind all that is ready, whose rows can be rolled back.
  int64_t drafts = 0;
};

// One step, from its parts to the tokens drawn. Its outputs are taken on whichever thread drives the device
// that has them: until the step is over nobody else touches prompt_scores and embedding_sum of its sequences,
// and nobody writes to what decides their draws.
class RunningStep {
 public:
  explicit RunningStep(std::vector<StepPart> parts) : parts_(std::move(parts)) { pack(); }

  StepInput input() const { return {token_, start_, slot_, wanted_row_, revocable_}; }
  void take(const StepOutputs& outputs);

  // Rows whose feed is used up by the step and that still want tokens get them drawn: `drawn[i]`, of
  // parts[i], is empty, or one token and another behind each draft that was accepted.
  struct Outcome {
    std::vector<StepPart> parts;
    std::vector<std::vector<SampledToken>> drawn;
    int64_t rows = 0;
    std::chrono::steady_clock::time_point begun;
  };
  Outcome outcome() && {
    return {std::move(parts_), std::move(drawn_), static_cast<int64_t>(token_.size()), begun_};
  }

 private:
  // What a part wants back from the model, as a range of wanted rows.
  struct Wanted {
    int32_t first = 0;
    int32_t count = 0;
    bool draws = false;
  };

  void pack();
  void draw(const StepOutputs& outputs);
  void add_rows(const StepPart& part, int32_t first_row, std::vector<SampleRow>& rows);
  void mix(const StepOutputs& outputs, const Sequence& sequence, int64_t first_row);
  void score(const StepOutputs& outputs);
  void pool_hidden(const StepOutputs& outputs);

  std::vector<StepPart> parts_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::vector<int32_t> token_, start_, slot_, wanted_row_;
  std::vector<uint8_t> revocable_;
  std::deque<PenaltyMemory> memories_;  // of rows behind drafts, as they are if those are accepted
  std::vector<Wanted> wanted_;
  std::vector<std::vector<SampledToken>> drawn_;
  std::vector<float> host_row_;
  std::vector<double> mixed_;
};

class StepRunner {
 public:
  explicit StepRunner(Model& model) : model_(model) {}

  // Whether devices are still at the step when `begin` returns.
  bool asynchronous() const { return model_.asynchronous(); }
  int64_t under_way() const { return static_cast<int64_t>(steps_.size()); }

  // Feeds the parts, none of which is under way, to the model.
  void begin(std::vector<StepPart> parts, const StatePool& states);
  // Waits for the oldest step that was begun and advances `fed` and `drawn_fed` of its sequences.
  RunningStep::Outcome finish();
  // Devices have failed: forgets what was begun, once nothing touches it any more.
  void abandon();

 private:
  Model& model_;
  std::deque<std::unique_ptr<RunningStep>> steps_;
};

}  // namespace fulmar
