// Measures how far two models with one vocabulary differ on the same texts: the cost of a quantisation.
#pragma once

#include <cstdint>
#include <vector>

#include "app/core/model_source.h"
#include "base/result.h"

namespace fulmar {

struct ModelDistance {
  int64_t positions = 0;    // tokens after which both were compared
  double relative_rms = 0;  // of the logits' difference, over the reference's standard deviation
  double divergence = 0;    // mean Kullback-Leibler divergence from the reference, in nats
  double same_top = 0;      // fraction of positions with the same most likely token
};

struct ComparedText {
  std::vector<int32_t> tokens;
  size_t first = 0;  // index of the token after which logits begin to count: the last of a prompt
};

struct TextsDistance {
  ModelDistance all;    // after every token that counts
  ModelDistance first;  // after the first such token of each text
};

// Compares two models. Both read each text from the zero state; only logits of tokens in the second one's
// vocabulary count. Fails for models of different vocabularies.
Result<TextsDistance> compare_models(LoadedModel& reference, LoadedModel& other,
                                     const std::vector<ComparedText>& texts);

// Sums of distances over positions; `sum` and `squares` are of the
// reference's logits. Pure.
struct DistanceSums {
  double error = 0, sum = 0, squares = 0, divergence = 0;
  int64_t numbers = 0, positions = 0, same_top = 0;

  void add(const std::vector<float>& reference, const std::vector<float>& other);
  ModelDistance result() const;
};

}  // namespace fulmar
