// Quantisation by importance (an importance matrix, as llama.cpp calls it): columns of a matrix do not count
// alike, since their inputs differ in size. Knows no models and no inputs.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/quantise.h"

namespace fulmar {

// Whether formats are packed by importance: not where errors are small wherever they lie, q8_0 and i8, nor
// where models were as often further off as nearer with it, q6_k and q5_k.
bool gains_by_importance(DType dtype);

// As encode_rows, for rows of importance.size() weights. A squared error counts the importance of its column,
// finite and not negative, times sqrt(m + x²), x being the weight and m the mean square of its block or
// group: clipped large weights err in one direction, rounded small ones in both. Of what encode_rows packs
// and of what a search for scales finds each block or group takes the one whose errors count less.
void encode_rows(const Quantisation& quantisation, std::span<const float> values,
                 std::span<const float> importance, std::byte* codes, float* scales);

}  // namespace fulmar
