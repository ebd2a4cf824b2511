// The golden files: prompts with logits, states and continuations of a double-precision reference.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files/checkpoint.h"

namespace fulmar::support {

using Json = nlohmann::json;

Json read_golden(const std::string& name);  // null where there are no golden files

// The model that a golden file is about: a file, or made by its recipe. Null, failing the test, where it
// cannot be opened.
std::unique_ptr<Checkpoint> golden_checkpoint(const Json& golden);

// The tuned initial state per layer; empty where the model has none.
std::vector<std::vector<float>> time_states(const Checkpoint& checkpoint, int64_t n_layer);

}  // namespace fulmar::support
