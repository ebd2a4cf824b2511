// How far two models with the same vocabulary are apart on the same texts: what a quantisation costs.
#pragma once

#include <cstdint>
#include <vector>

#include "app/core/model_source.h"
#include "base/result.h"

namespace fulmar {

struct ModelDistance {
  int64_t positions = 0;    // tokens after which both were asked
  double relative_rms = 0;  // of the logits' difference, over the standard deviation of the reference's
  double divergence = 0;    // mean Kullback-Leibler divergence from the reference, in nats
  double same_top = 0;      // share of positions with the same most likely token
};

struct ComparedText {
  std::vector<int32_t> tokens;
  size_t first = 0;  // the token behind which logits begin to count: the last of a prompt
};

struct TextsDistance {
  ModelDistance all;    // behind every token that counts
  ModelDistance first;  // behind the first one of each text
};

// Both models read each text from the zero state; only logits of tokens that the second one's vocabulary has
// are compared. Refuses models of different vocabularies.
Result<TextsDistance> compare_models(LoadedModel& reference, LoadedModel& other,
                                     const std::vector<ComparedText>& texts);

// The distance of logits at one position, added to what is there; `sum` and `squares` are over the
// reference's logits. Pure.
struct DistanceSums {
  double error = 0, sum = 0, squares = 0, divergence = 0;
  int64_t numbers = 0, positions = 0, same_top = 0;

  void add(const std::vector<float>& reference, const std::vector<float>& other);
  ModelDistance result() const;
};

}  // namespace fulmar
