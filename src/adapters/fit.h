// The third step of reading an adapter: does it fit the model that it is to change?
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "adapters/adapter.h"
#include "base/result.h"
#include "files/model_config.h"

namespace fulmar {

// What of a model an adapter is compared with; small enough to keep beside a running one.
struct BaseShapes {
  int version = 0;
  int64_t n_layer = 0, n_head = 0, head_size = 0;
  bool embedding_normed = false;
  std::unordered_map<std::string, std::vector<int64_t>> tensors;  // official shapes by official name
};

BaseShapes base_shapes(const Checkpoint& checkpoint, const ModelConfig& config);

// A linear's sizes: of a low-rank part and of the embedding those of the transpose.
struct LinearShape {
  int64_t out = 0, in = 0;
};

// Returns the sizes of a matrix that deltas may change. Error invalid: the model lacks it, never reads it, or
// it is no matrix.
Result<LinearShape> linear_of(const BaseShapes& base, const std::string& weight);

// Checks every tensor against the model and expands MiSS mini. Errors (invalid) name the tensor, found and
// wanted; nothing is skipped.
Status fit_adapter(Adapter& adapter, const BaseShapes& base);

// Checks the fingerprint of the model that an adapter was trained on, where it says one; `sha256` is that of
// the model's file.
Status check_fingerprint(const Adapter& adapter, const std::string& sha256);

}  // namespace fulmar
