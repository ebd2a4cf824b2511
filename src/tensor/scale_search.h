// Searches for the scale of a block, by weighted least squares from several starting scales. Any result is a
// legal packing; a better one has less error.
//
// Where `importance` is not null it has `count` numbers: what a squared error of each value counts. Where it
// is null each search takes its own guess for values of which no more is known.
#pragma once

#include <cstdint>
#include <span>

namespace fulmar {

// 1 / d, and 0 where that is no finite number.
float inverse(float d);

// The element of largest magnitude, the first of equals, with its sign.
float signed_extreme(const float* values, int64_t count);

// Starting scales: those that map the extreme to the lowest level plus each of `tries` evenly spaced offsets
// in [-reach, reach].
struct ScaleTries {
  float reach;
  int tries;
};

// The scale whose multiples of the levels come closest to the values, for levels from a table (ascending).
// `codes` gets the index of the level nearest to each value at that scale. The guess: a value's own square.
float search_scale(const float* values, const float* importance, int64_t count,
                   std::span<const int8_t> levels, ScaleTries tries, uint8_t* codes);

// The same for all whole numbers in [-half, half), as a scale only.
float search_even_scale(const float* values, const float* importance, int64_t count, int half,
                        ScaleTries tries);

// value ~ scale * code - least, with codes 0..top and least >= 0.
struct Affine {
  float scale = 0;
  float least = 0;
};

// The guess: base + |value|.
Affine search_affine(const float* values, const float* importance, int64_t count, int top, float base);

}  // namespace fulmar
