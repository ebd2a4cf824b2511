// Warm-up: runs a model's slow first steps before requests come.
#pragma once

#include "base/result.h"
#include "model/model.h"

namespace fulmar {

// Runs a step of each batch size whose first step is slow: GEMMs are timed, kernels loaded, graphs captured.
// Uses a state of its own, which is freed again. Does nothing on a device that needs no warm-up; fails where
// that state cannot be made.
Status warm_up(Model& model);

}  // namespace fulmar
