// Runs steps on the model's devices: packs the planned tokens of the sequences, calls the model, draws the
// tokens. In two halves, so that the host can do other work while devices compute, and so that several steps
// can be under way (micro-batches of a pipeline). Another file chooses the sequences.
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

// One sequence's part of a step.
struct StepPart {
  Sequence* sequence = nullptr;  // null: it was forgotten while the step was under way
  int64_t count = 0;             // tokens of sequence->ready() to feed, at least 1
  // Tokens of sequence->drafts to feed after all that is ready; their rows can be rolled back.
  int64_t drafts = 0;
};

// One step, from its parts to the tokens drawn. The thread that drives the device with the outputs takes
// them: until the step is over no other thread touches prompt_scores and embedding_sum of its sequences, or
// changes what decides their draws.
class RunningStep {
 public:
  explicit RunningStep(std::vector<StepPart> parts) : parts_(std::move(parts)) { pack(); }
  // Begins a step before the previous draws are known: parts[i] is fed the
  // token of draw number drawn[i].
  RunningStep(std::vector<StepPart> parts, std::span<const int32_t> drawn);

  StepInput input() const {
    const auto none = std::span<const SequenceDeltas>();
    return {token_, start_, slot_, wanted_row_, revocable_, nullptr, adapters_.empty() ? none : deltas_};
  }
  void take(const StepOutputs& outputs);
  std::span<const StepPart> parts() const { return parts_; }
  bool ahead() const { return ahead_; }

  // Returns the draws of a step whose parts are one decoding row each, in the order of the parts that are
  // left; their tokens go to drawn_ahead().
  std::vector<SampleRow> draw_rows();
  std::span<SampledToken> drawn_ahead() { return drawn_ahead_; }
  void draw_in_finish() { drawing_.clear(); }  // the draws could not be begun
  // Discards this sequence's results of a speculatively started step. Returns whether it was in the step.
  bool forget(const Sequence& sequence);

  // Rows whose feed is used up by the step and that want more tokens get them drawn: drawn[i] of parts[i] is
  // empty, or one token plus one after each accepted draft.
  struct Outcome {
    std::vector<StepPart> parts;
    std::vector<std::vector<SampledToken>> drawn;
    int64_t rows = 0;
    std::chrono::steady_clock::time_point begun;
    bool ahead = false;  // it was begun while the previous step was under way
  };
  Outcome outcome() &&;

 private:
  // The outputs that a part wants, as a range of wanted rows.
  struct Wanted {
    int32_t first = 0;
    int32_t count = 0;
    bool draws = false;
  };

  void pack();
  void add_deltas(const AdapterUse& use);
  void take_drawn_ahead();
  void draw(const StepOutputs& outputs);
  void add_rows(const StepPart& part, int32_t first_row, std::vector<SampleRow>& rows);
  void mix(const StepOutputs& outputs, const Sequence& sequence, int64_t first_row);
  void score(const StepOutputs& outputs);
  void pool_hidden(const StepOutputs& outputs);

  std::vector<StepPart> parts_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::vector<int32_t> token_, start_, slot_, wanted_row_;
  std::vector<uint8_t> revocable_;
  std::vector<SequenceDeltas> deltas_;                          // of each sequence
  std::vector<std::shared_ptr<const DeviceAdapter>> adapters_;  // in use, also where a row is forgotten
  std::deque<PenaltyMemory> memories_;  // of rows after drafts, as if those were accepted
  std::vector<Wanted> wanted_;
  std::vector<std::vector<SampledToken>> drawn_;
  bool ahead_ = false;
  std::vector<SampledToken> drawn_ahead_;  // of the parts that were left when the draws began
  std::vector<size_t> drawing_;            // indices of these parts
  std::vector<float> host_row_;
  std::vector<double> mixed_;
};

class StepRunner {
 public:
  explicit StepRunner(Model& model) : model_(model) {}

  // Returns whether devices still compute the step when `begin` returns.
  bool asynchronous() const { return model_.asynchronous(); }
  int64_t under_way() const { return static_cast<int64_t>(steps_.size()); }

  // Feeds the parts to the model. No part's sequence may be in a step under way, except for pieces of one
  // prompt, which follow one another.
  void begin(std::vector<StepPart> parts, const StatePool& states);
  // Returns whether the newest step was begun before its tokens were known.
  bool ahead() const { return !steps_.empty() && steps_.back()->ahead(); }
  // Returns the newest step's parts.
  std::span<const StepPart> parts() const;
  // Enqueues the draws of the newest step, whose parts are one decoding row each, for
  // run-ahead (asynchronous scheduling); returns false where finish() has to draw. begin_ahead
  // then feeds their tokens, still unknown to the host, to the parts for which `goes_on` is
  // true; it begins no step where there are none.
  bool begin_draws();
  bool begin_ahead(const std::vector<bool>& goes_on, StatePool& states);
  // Discards an ended row's results of a speculatively started step. Returns whether there is one.
  bool forget(Sequence& sequence);
  // Waits for the oldest step and advances `fed` and `drawn_fed` of its sequences.
  RunningStep::Outcome finish();
  // Forgets the steps under way after devices have failed, once no thread uses them.
  void abandon();

 private:
  void begin(std::unique_ptr<RunningStep> begun, const StatePool& states);

  Model& model_;
  std::deque<std::unique_ptr<RunningStep>> steps_;
};

}  // namespace fulmar
