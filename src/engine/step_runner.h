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
  Sequence* sequence = nullptr;  // null: it was forgotten while the step was under way
  int64_t count = 0;             // tokens of sequence->ready() to feed, at least 1
  // Tokens of sequence->drafts to feed behind all that is ready, whose rows can be rolled back.
  int64_t drafts = 0;
};

// One step, from its parts to the tokens drawn. Its outputs are taken on whichever thread drives the device
// that has them: until the step is over nobody else touches prompt_scores and embedding_sum of its sequences,
// and nobody writes to what decides their draws.
class RunningStep {
 public:
  explicit RunningStep(std::vector<StepPart> parts) : parts_(std::move(parts)) { pack(); }
  // The step behind draws that are not over, of rows that go on: `drawn[i]` is the number of the draw whose
  // token parts[i] is fed.
  RunningStep(std::vector<StepPart> parts, std::span<const int32_t> drawn);

  StepInput input() const { return {token_, start_, slot_, wanted_row_, revocable_}; }
  void take(const StepOutputs& outputs);
  std::span<const StepPart> parts() const { return parts_; }
  bool ahead() const { return ahead_; }

  // The draws of a step whose parts are a decoding row each, in the order of the parts that are left; the
  // tokens are to be put into drawn_ahead().
  std::vector<SampleRow> draw_rows();
  std::span<SampledToken> drawn_ahead() { return drawn_ahead_; }
  void draw_in_finish() { drawing_.clear(); }  // the draws have not begun after all
  // Of a step that was begun ahead: what is computed of the sequence nobody takes. Whether it has a part.
  bool forget(const Sequence& sequence);

  // Rows whose feed is used up by the step and that still want tokens get them drawn: `drawn[i]`, of
  // parts[i], is empty, or one token and another behind each draft that was accepted.
  struct Outcome {
    std::vector<StepPart> parts;
    std::vector<std::vector<SampledToken>> drawn;
    int64_t rows = 0;
    std::chrono::steady_clock::time_point begun;
    bool ahead = false;  // it was begun while the step in front of it was under way
  };
  Outcome outcome() &&;

 private:
  // What a part wants back from the model, as a range of wanted rows.
  struct Wanted {
    int32_t first = 0;
    int32_t count = 0;
    bool draws = false;
  };

  void pack();
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
  std::deque<PenaltyMemory> memories_;  // of rows behind drafts, as they are if those are accepted
  std::vector<Wanted> wanted_;
  std::vector<std::vector<SampledToken>> drawn_;
  bool ahead_ = false;
  std::vector<SampledToken> drawn_ahead_;  // of the parts that were left when the draws began
  std::vector<size_t> drawing_;            // which these are
  std::vector<float> host_row_;
  std::vector<double> mixed_;
};

class StepRunner {
 public:
  explicit StepRunner(Model& model) : model_(model) {}

  // Whether devices are still at the step when `begin` returns.
  bool asynchronous() const { return model_.asynchronous(); }
  int64_t under_way() const { return static_cast<int64_t>(steps_.size()); }

  // Feeds the parts to the model. None is under way, but for the pieces of a prompt, which follow one
  // another.
  void begin(std::vector<StepPart> parts, const StatePool& states);
  // Whether the newest step was begun behind draws that were not over.
  bool ahead() const { return !steps_.empty() && steps_.back()->ahead(); }
  // Of the newest step.
  std::span<const StepPart> parts() const;
  // Run-ahead (asynchronous scheduling). Begins the draws of the newest step, whose parts are a decoding row
  // each, without waiting for them; false where finish() is to draw. Then begin_ahead feeds their tokens to
  // those of its parts that `goes_on` says, before anybody knows them; nothing where none does.
  bool begin_draws();
  bool begin_ahead(const std::vector<bool>& goes_on, StatePool& states);
  // The row has ended: what a step that was begun ahead computes of it nobody takes. Whether there is one.
  bool forget(Sequence& sequence);
  // Waits for the oldest step that was begun and advances `fed` and `drawn_fed` of its sequences.
  RunningStep::Outcome finish();
  // Devices have failed: forgets what was begun, once nothing touches it any more.
  void abandon();

 private:
  void begin(std::unique_ptr<RunningStep> begun, const StatePool& states);

  Model& model_;
  std::deque<std::unique_ptr<RunningStep>> steps_;
};

}  // namespace fulmar
