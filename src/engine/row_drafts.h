// A sequence's sources of drafts, and its drafts for the current step. Plain data, part of a Sequence.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "draft/acceptance.h"
#include "draft/ngram_drafter.h"
#include "engine/stats.h"

namespace fulmar {

// Kinds of n-gram drafts, by expected quality: a match of 2, 3, 4 to 7 or more tokens; a prediction.
constexpr size_t kNgramKinds = 5;
using NgramRates = std::array<AcceptanceRate, kNgramKinds>;

struct RowDrafts {
  // ---- for the current step
  std::vector<int32_t> tokens;  // fed after ready(); may be rolled back
  struct Behind {
    int32_t forced;  // -1: none
    std::vector<uint64_t> allowed;
  };
  std::vector<Behind> behind;  // of a row with a mask: after each of `tokens`, as in SampleRow
  DraftSource source = DraftSource::ngram;
  // The tokens that n-grams propose, fed or not: the drawn ones show how often they are right.
  std::vector<int32_t> proposal;
  size_t kind = 0;  // of the proposal, below kNgramKinds

  // ---- sources
  std::optional<NgramDrafter> ngrams;  // created with the row's first draft
  size_t known = 0;                    // drawn tokens that the n-grams contain
  NgramRates rates;
  int64_t model_slot = -1;  // slot in the draft model; -1: none
  size_t model_read = 0;    // tokens of prompt and output that the state there contains
  AcceptanceRate model_rate;
};

}  // namespace fulmar
