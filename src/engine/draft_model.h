// A small model that drafts for a large one with the same vocabulary. It has slots of its own, which are fed
// what rows have output, and draws with the rows' own keys, so that two models that agree on what is likely
// draw the same tokens. Guesses are fed to a copy of a row's state: rejected ones never reach the state
// itself. The engine thread owns it.
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
  // Makes it for up to `rows` rows at once. The model and its ops outlive it.
  static Result<std::unique_ptr<DraftModel>> make(Model& model, Ops& ops, int64_t rows);

  // Returns whether it can draft for the row: the row has a slot, or one is free.
  bool has_place(const Sequence& sequence) const { return sequence.drafts.model_slot >= 0 || !free_.empty(); }
  // Gives the row a slot; returns false where none is free.
  bool take_place(RowDrafts& drafts);

  // Drafts up to `tokens` tokens for each row that has a slot, into `drafts.tokens`; none while more of the
  // row is unread than one step may feed. Returns the number of steps it took.
  struct Job {
    Sequence* sequence = nullptr;
    int64_t tokens = 0;
  };
  int64_t draft(std::span<const Job> jobs);

  // Frees the row's slot.
  void leave(RowDrafts& drafts);

 private:
  // A row during draft().
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
  StatePool pool_;  // `rows_` states of rows, then as many copies for guesses
  const int64_t rows_;
  std::vector<int64_t> free_;
  std::vector<int32_t> token_, start_, slot_, wanted_;
};

}  // namespace fulmar
