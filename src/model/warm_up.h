// Warm-up: a model's first steps, before anybody waits for them.
#pragma once

#include "base/result.h"
#include "model/model.h"

namespace fulmar {

// Runs a step of each number of rows whose first one takes longer than later ones: products that have to be
// timed, kernels and graphs to be loaded. Takes a state of its own meanwhile, and leaves nothing behind. Does
// nothing on a device that needs none; fails with what kept it from having a state.
Status warm_up(Model& model);

}  // namespace fulmar
