// The golden files: prompts with logits, states and continuations of a double-precision reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files/checkpoint.h"
#include "support/shared_files.h"

namespace fulmar::support {

// The model that a golden file is about: a file, or made by its recipe. Null, failing the test, where it
// cannot be opened.
std::unique_ptr<Checkpoint> golden_checkpoint(const Json& golden);

// The tuned initial state per layer; empty where the model has none.
std::vector<std::vector<float>> time_states(const Checkpoint& checkpoint, int64_t n_layer);

}  // namespace fulmar::support
