// Adapters made by the recipe of the golden files: deterministic numbers under the names of their tensors.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "files/checkpoint.h"
#include "support/shared_files.h"
#include "tensor/host_delta.h"

namespace fulmar::support {

// Numbers base + amp * (2u - 1), of a generator that depends on the name alone.
std::vector<float> recipe_numbers(std::string_view name, size_t count, double amp, double base = 0);

// An adapter in host memory, with the memory that its changes point to.
struct AdapterRecipe {
  std::vector<HostDelta> deltas;
  std::list<std::vector<float>> numbers;
};

// The official names of all matrices of the blocks that adapters change by default.
std::vector<std::string> adapted_matrices(int version, int64_t n_layer);

// An adapter of kind "lora", "miss", "bat_in", "dora_out" or "dora_in" for these matrices of a model.
struct RecipeSpec {
  std::string kind;
  int64_t rank = 0;
  double amp = 0;
  float scale = 1;
};
AdapterRecipe make_adapter(const RecipeSpec& spec, const std::vector<std::string>& matrices,
                           const Checkpoint& model);

}  // namespace fulmar::support
