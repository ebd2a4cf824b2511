// Host-side decisions of speculative decoding: which drafted tokens a step feeds, and what is learnt from the
// result. Draws decide which drafts are right (draft/acceptance.h); the state keeper rolls back rejected
// rows. The engine thread owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "draft/draft_length.h"
#include "draft/step_cost.h"
#include "engine/draft_model.h"
#include "engine/engine.h"
#include "engine/sequence.h"

namespace fulmar {

// Limits on drafted rows.
struct DraftRoom {
  int64_t rows = 0;       // of one step
  int64_t wanted = 0;     // of one step, with their outputs
  int64_t revocable = 0;  // of one sequence and step that may be rolled back, plus its first
};

class Speculation {
 public:
  // Starts with no measurements. `model`: null, or a source of drafts besides n-grams.
  Speculation(const SpeculationOptions& options, const DraftRoom& room, std::unique_ptr<DraftModel> model)
      : options_(options), room_(room), model_(std::move(model)) {}

  // Sets the `drafts` of each row for the next step. A step that feeds prompts has none: its rows are
  // expensive, and its time says nothing about drafts. Nor has one of more than kMostRows running rows:
  // drafts pay on no device there, and the lookup delays the next step.
  static constexpr size_t kMostRows = 256;
  void prepare(std::span<const std::unique_ptr<Sequence>> running);
  // Returns whether the next step would feed drafts, by what is known now (perhaps a token less than then).
  bool would_draft(std::span<const std::unique_ptr<Sequence>> running);

  // Records the time of a step of `rows` rows without prompts.
  void timed(int64_t rows, double seconds);

  // Records the result of a step that fed `drafted` drafts of the row: `drawn` are the tokens it has taken,
  // of which all but the last were drafted.
  void learn(Sequence& sequence, int64_t drafted, std::span<const SampledToken> drawn);

  // Frees what the row holds of the draft model.
  void leave(Sequence& sequence);

  void add_to(EngineStats& stats) const { stats.drafts = counts_; }

 private:
  bool on() const { return (options_.ngrams || model_) && options_.most > 0 && room_.revocable > 1; }
  int64_t most_drafts(const Sequence& sequence) const;
  void look_up(Sequence& sequence, int64_t most);
  double ngram_rate(const Sequence& sequence) const;
  double model_rate(const Sequence& sequence) const;
  DraftOffer offer(Sequence& sequence);
  // Rows that can have drafts, and how many each feeds.
  struct Choice {
    std::vector<Sequence*> rows;
    std::vector<DraftOffer> offers;
    std::vector<int64_t> lengths;
  };
  Choice choose(std::span<const std::unique_ptr<Sequence>> running);
  void draft_by_model(std::span<const DraftModel::Job> jobs);

  const SpeculationOptions options_;
  const DraftRoom room_;
  std::unique_ptr<DraftModel> model_;
  StepCost cost_;
  StepCost model_cost_;  // of the draft model, by the number of rows
  NgramRates rates_;     // over all rows: the initial expectation of a row
  AcceptanceRate model_rate_;
  DraftCounts counts_;
};

// Shortens the row's drafts to those its mask allows, and keeps the allowed ids after each, as far as they
// are already computed: drafts cause no work on masks. A token that would complete the text is not drafted.
void keep_to_mask(Sequence& sequence);

}  // namespace fulmar
