// The change of a matrix, in host memory, as an adapter offers it to a model.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tensor/weight.h"

namespace fulmar {

// With P = scale * up @ down and a request's scale t, W [out, in] becomes
//   W + t * P                              plain (LoRA; MiSS, without `down`)
//   W + t * (diag(gain) (W + P) - W)       with a gain (DoRA by outputs)
//   W + t * ((W + P) diag(input_gain) - W) with an input gain (DoRA by inputs)
//   W + t * (W D + tile(D))                with blocks (Bat by inputs): D is block-diagonal, of `blocks`, and
//   row o of
//                                          tile(D) is the sum of D's rows whose number is o modulo R
// At most one of the last three. The memory that this points to is its owner's.
struct HostDelta {
  std::string matrix;                      // official name of W's tensor, such as "blocks.3.att.key.weight"
  int64_t rank = 0;                        // R, at least 1
  HostMatrix down;                         // [R, in]; data null: down[j, i] = (i mod R == j)
  HostMatrix up;                           // [out, R]; null with blocks
  float scale = 1;                         // finite
  std::span<const float> gain = {};        // [out]; empty: none
  std::span<const float> input_gain = {};  // [in]; empty: none
  std::span<const float> blocks = {};      // [in / R, R, R]; empty: none
};

}  // namespace fulmar
