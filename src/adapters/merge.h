// A model with an adapter folded into its weights.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/fit.h"
#include "base/result.h"

namespace fulmar {

struct MergeOptions {
  double strength = 1;  // t: how much of what the adapter changes
  std::function<void(double fraction)> progress = {};
};

// The largest |t| that is accepted.
inline constexpr double kMostStrength = 100;

// Returns the model whose weights are W + t ΔW, computed in f32 and rounded once to the type of W; tensors
// that the adapter holds whole take the place of the model's, and initial states are added. The adapter fits
// the model (fit_adapter). Errors: unsupported, for quantised matrices, named, since they would be rounded
// twice; invalid, for a strength that is not finite or beyond kMostStrength, and for results that their type
// cannot hold. `warnings` gets what looks like a mistake, one line each.
Result<std::unique_ptr<Checkpoint>> merge_adapter(std::unique_ptr<Checkpoint> model, const Adapter& adapter,
                                                  const MergeOptions& options,
                                                  std::vector<std::string>* warnings = nullptr);

}  // namespace fulmar
