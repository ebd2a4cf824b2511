// The golden files: prompts with logits, states and continuations of a double-precision reference.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/checkpoint.h"
#include "support/shared_files.h"

namespace fulmar::support {

// The model that a golden file is about: a file, or made by its recipe. Null, failing the test, where it
// cannot be opened.
std::unique_ptr<Checkpoint> golden_checkpoint(const Json& golden);

// GGUF models that lie beside the checkout; what they must give is in the golden file "gguf-" and the name.
inline constexpr const char* kStoredGguf[] = {"fulmar-demo-Q4_K_M",   "fulmar-demo-mix",
                                              "rwkv6-tiny-1m-Q4_K_M", "rwkv7-reverse-f16",
                                              "rwkv7-reverse-mix",    "rwkv7-reverse-split"};

// The model of such a golden file, by the first part where there are several. Null, failing the test, where
// it cannot be opened.
std::unique_ptr<Checkpoint> stored_gguf(const Json& golden);

// A name as a parameter of a test may have it.
std::string parameter_name(std::string_view name);

// The tuned initial state per layer; empty where the model has none.
std::vector<std::vector<float>> time_states(const Checkpoint& checkpoint, int64_t n_layer);

}  // namespace fulmar::support
