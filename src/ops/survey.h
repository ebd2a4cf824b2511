// How a vocabulary is divided for surveys of its logits, in front of draws: the same on every device, so that
// several of them find what one finds.
#pragma once

#include <cstdint>

namespace fulmar {

// The ids in order, in slices of one length, which is a multiple of four; the last one may be shorter.
constexpr int64_t kSurveySlices = 32;  // at most
constexpr int64_t survey_slice_length(int64_t vocab) {
  constexpr int64_t kGrain = 4 * kSurveySlices;
  return (vocab + kGrain - 1) / kGrain * 4;
}

}  // namespace fulmar
