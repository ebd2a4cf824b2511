// What a delta makes of its matrix, in f32. Knows no files and no formats.
#pragma once

#include <span>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/fit.h"

namespace fulmar {

// Adds t ΔW to W, row-major [out, in], with every core; the delta fits it (fit_adapter). A row or column of
// zeros under DoRA by outputs gives numbers that are not finite.
void add_delta(const Delta& delta, float t, const LinearShape& shape, std::span<float> w);

// Returns the magnitudes of DoRA over the norms of V = W + s B A, of its rows (DoRA by outputs) or of its
// columns (by inputs).
std::vector<float> dora_gain(const Delta& delta, const LinearShape& shape, std::span<const float> w);

}  // namespace fulmar
