// Speculative decoding, as far as it is decided on the host: which drafted tokens a step feeds, and what is
// learnt from those that were right. What counts as right is decided by the draws (draft/acceptance.h); that
// rejected rows never reach a state is the keeper's business. The engine thread owns it.
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

// Room for drafted rows.
struct DraftRoom {
  int64_t rows = 0;       // of one step
  int64_t wanted = 0;     // of one step, with their outputs
  int64_t revocable = 0;  // of one sequence and step that may be rolled back, its first one counted in
};

class Speculation {
 public:
  // `model`: null, or what drafts besides n-grams.
  Speculation(const SpeculationOptions& options, const DraftRoom& room, std::unique_ptr<DraftModel> model)
      : options_(options), room_(room), model_(std::move(model)) {}

  // Leaves the drafts of the step to come in `drafts` of each row. A step that feeds prompts has none: its
  // rows are dear, and its time says nothing of drafts. Nor have more than kMostRows running rows: drafts pay
  // on no device then, and looking for them is work between two steps.
  static constexpr size_t kMostRows = 256;
  void prepare(std::span<const std::unique_ptr<Sequence>> running);
  // Whether the next step would feed drafts by what is known now, which may be a token less than it will
  // know.
  bool would_draft(std::span<const std::unique_ptr<Sequence>> running);

  // A step of so many rows, without prompts, has taken so long.
  void timed(int64_t rows, double seconds);

  // After a step that fed so many drafts of the row: `drawn` are the tokens that it has taken, of which all
  // but the last were drafted.
  void learn(Sequence& sequence, int64_t drafted, std::span<const SampledToken> drawn);

  // The row drafts no more.
  void leave(Sequence& sequence);

  void add_to(EngineStats& stats) const { stats.drafts = counts_; }

 private:
  bool on() const { return (options_.ngrams || model_) && options_.most > 0 && room_.revocable > 1; }
  int64_t most_drafts(const Sequence& sequence) const;
  void look_up(Sequence& sequence, int64_t most);
  double ngram_rate(const Sequence& sequence) const;
  double model_rate(const Sequence& sequence) const;
  DraftOffer offer(Sequence& sequence);
  // Rows that can have drafts, with as many as pay.
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
  StepCost model_cost_;  // of the draft model, by the rows that it drafts for
  NgramRates rates_;     // over all rows: what a row begins with
  AcceptanceRate model_rate_;
  DraftCounts counts_;
};

// How many of the row's drafted tokens its mask lets through, with what may follow each, as far as that is at
// hand: drafts cause no work on masks. A token that would complete the text is none of them.
void keep_to_mask(Sequence& sequence);

}  // namespace fulmar
