// A small model that drafts for a large one with the same vocabulary. It has slots of its own, is kept in
// step by feeding it what rows have said, and draws with the rows' own keys, so that two models that agree on
// what is likely draw the same tokens. Its guesses are fed to a copy of a row's state: what was rejected
// never reaches the state itself. The engine thread owns it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "model/model.h"
#include "model/state_pool.h"

namespace fulmar {

class DraftModel {
 public:
  // Rows that it drafts for at once, at most `rows`. The model and its ops outlive this.
  static Result<std::unique_ptr<DraftModel>> make(Model& model, Ops& ops, int64_t rows);

  // Whether it could draft for the row: it has a slot there, or there is a free one.
  bool has_place(const Sequence& sequence) const { return sequence.drafts.model_slot >= 0 || !free_.empty(); }
  // Gives the row a slot; false where none is free.
  bool take_place(RowDrafts& drafts);

  // Drafts up to `tokens` tokens for a row that has taken a place, into its `drafts.tokens`; none while it
  // still has to read more of the row than one step may feed. Returns the steps that it took.
  struct Job {
    Sequence* sequence = nullptr;
    int64_t tokens = 0;
  };
  int64_t draft(std::span<const Job> jobs);

  // The row has no further use for it.
  void leave(RowDrafts& drafts);

 private:
  // A row while it is being drafted for.
  struct Live {
    Sequence* sequence = nullptr;
    int64_t tokens = 0;
    PenaltyMemory memory;
    std::unique_ptr<TokenMask> mask;
    SamplingParams params;
    bool over = false;
  };

  DraftModel(Model& model, Ops& ops, StatePool pool, int64_t rows);
  std::vector<Live> catch_up(std::span<const Job> jobs);
  void draw(std::span<Live* const> rows, Tensor logits);
  Tensor feed_guesses(std::span<Live* const> rows);
  int64_t copy_of(const Sequence& sequence) const { return rows_ + sequence.drafts.model_slot; }

  Model& model_;
  Ops& ops_;
  StatePool pool_;  // `rows_` states of rows, then as many copies that guesses are fed to
  const int64_t rows_;
  std::vector<int64_t> free_;
  std::vector<int32_t> token_, start_, slot_, wanted_;
};

}  // namespace fulmar
