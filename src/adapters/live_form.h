// The form of an adapter that a model computes beside its weights, for each sequence by itself.
#pragma once

#include <list>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/fit.h"
#include "base/result.h"
#include "tensor/host_delta.h"

namespace fulmar {

// The changes of an adapter, as Model::load_adapter takes them. They point into the adapter and into
// `numbers`.
struct LiveForm {
  std::vector<HostDelta> deltas;
  std::list<std::vector<float>> numbers;
};

// Fails (unsupported) for an adapter without a live form, as live_form() does, whatever the model.
Status check_live(const Adapter& adapter);

// Returns the live form of an adapter that fits the model (fit_adapter). Reads matrices of the model where
// their norms matter (DoRA). Errors (unsupported) name the tensor, for what can only be merged: whole
// tensors, the embedding, and Bat by outputs. Initial states are no part of it.
Result<LiveForm> live_form(const Adapter& adapter, const Checkpoint& model, const BaseShapes& shapes);

// Returns the initial states by layer, each [head][value][key], as engines take them; empty: there are none.
std::vector<std::vector<float>> state_numbers(const Adapter& adapter);

}  // namespace fulmar
