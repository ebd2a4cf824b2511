// Searches for the scale of a block, by weighted least squares from several starting scales. Any result is a
// legal encoding; a better one has less error.
//
// `importance` has `count` numbers, the weights of the squared errors. Where it is null, each search uses a
// weight of its own for values about which no more is known; the comments below call it the default weight.
#pragma once

#include <cstdint>
#include <span>

namespace fulmar {

// Returns 1 / d, or 0 where that is not finite.
float inverse(float d);

// Returns the element of largest magnitude, the first of equals, with its sign.
float signed_extreme(const float* values, int64_t count);

// Starting scales: those that map the extreme value to the lowest level plus each of `tries` evenly spaced
// offsets in [-reach, reach].
struct ScaleTries {
  float reach;
  int tries;
};

// Returns the scale whose multiples of `levels` (ascending) come closest to the values. Writes to `codes` the
// index of the level nearest to each value at that scale. Default weight: the value's square.
float search_scale(const float* values, const float* importance, int64_t count,
                   std::span<const int8_t> levels, ScaleTries tries, uint8_t* codes);

// Returns likewise the scale for all whole numbers in [-half, half) as levels.
float search_even_scale(const float* values, const float* importance, int64_t count, int half,
                        ScaleTries tries);

// Approximates a value as scale * code - least, with codes 0..top and least >= 0.
struct Affine {
  float scale = 0;
  float least = 0;
};

// Returns the scale and minimum that come closest to the values. Default weight: base + |value|.
Affine search_affine(const float* values, const float* importance, int64_t count, int top, float base);

}  // namespace fulmar
