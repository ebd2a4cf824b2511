// Quantisation with an importance matrix, as llama.cpp calls it: errors of a matrix's columns are weighted,
// since their inputs differ in size. Knows no models and no inputs.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/quantise.h"

namespace fulmar {

// Returns whether a format is encoded by importance. q8_0 and i8 are not, because their errors are small
// everywhere; nor is q6_k or q5_k, which left models worse as often as better.
bool gains_by_importance(DType dtype);

// Encodes like that of quantise.h, for rows of importance.size() weights. A weight x's squared error counts
// its column's importance (finite, >= 0) times sqrt(m + x²), m being the mean square of its block or group:
// clipped large weights err in one direction, rounded small ones in both. Each block or group is encoded both
// as there and by a search for its scale; the one with less error is kept.
void encode_rows(const Quantisation& quantisation, std::span<const float> values,
                 std::span<const float> importance, std::byte* codes, float* scales);

}  // namespace fulmar
