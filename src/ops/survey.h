// How a vocabulary is divided into slices whose logits are surveyed before draws: the same on every device,
// so that one device and several give the same draws.
#pragma once

#include <cstdint>

namespace fulmar {

// Slices are equal ranges of ids, in order, a multiple of four long; the last one may be shorter.
constexpr int64_t kSurveySlices = 32;  // at most
constexpr int64_t survey_slice_length(int64_t vocab) {
  constexpr int64_t kGrain = 4 * kSurveySlices;
  return (vocab + kGrain - 1) / kGrain * 4;
}

}  // namespace fulmar
