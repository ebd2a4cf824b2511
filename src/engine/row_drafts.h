// What one sequence drafts from, and its drafts of the step at hand. Plain data, part of a Sequence.
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

// Kinds of n-gram drafts by how often they are right: a match of 2, 3, 4 to 7 or more tokens; a prediction.
constexpr size_t kNgramKinds = 5;
using NgramRates = std::array<AcceptanceRate, kNgramKinds>;

struct RowDrafts {
  // ---- of the step at hand
  std::vector<int32_t> tokens;  // fed behind ready(); may be taken back
  struct Behind {
    int32_t forced;  // -1: none
    std::vector<uint64_t> allowed;
  };
  std::vector<Behind> behind;  // of a row with a mask: behind each of `tokens`, as SampleRow takes it
  DraftSource source = DraftSource::ngram;
  // What the n-grams say, whether it is fed or not: the tokens drawn then show how often they are right.
  std::vector<int32_t> proposal;
  size_t kind = 0;  // of the proposal, below kNgramKinds

  // ---- what they are made from
  std::optional<NgramDrafter> ngrams;  // made with the row's first draft
  size_t known = 0;                    // drawn tokens that the n-grams contain
  NgramRates rates;
  int64_t model_slot = -1;  // in the draft model; -1: none
  size_t model_read = 0;    // tokens of prompt and output that the state there contains
  AcceptanceRate model_rate;
};

}  // namespace fulmar
