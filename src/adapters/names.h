// The official names of what adapters change, under the names that other programs give. Knows no tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fulmar {

struct OfficialWeight {
  std::string name;  // "blocks.3.att.key.weight"
  int version = 0;   // of the models that have the name; 0: both
};

// Returns the weight of a module as Hugging Face adapters name it: "blocks.3.att.key", the path in a
// flash-linear-attention model ("model.layers.3.attn.k_proj"), "lm_head"; nothing for other modules.
std::optional<OfficialWeight> weight_of_module(std::string_view module);

// The two ways in which Hugging Face adapters name modules.
enum class ModuleNames : uint8_t { official, flash_linear_attention };

// Returns the module whose weight it is, so that weight_of_module gives the weight back; nothing where the
// names have none. `version` is that of the models; 0: unknown.
std::optional<std::string> module_of_weight(std::string_view weight, ModuleNames names, int version);

// Returns whether an official file stores a matrix as [in, out]: low-rank parts and the embedding.
bool is_input_major(std::string_view name);

// Returns the name without the "model." that some trainers leave before official names.
std::string_view without_model(std::string_view name);

// Returns the only version that has a tensor of this official name; 0 where both may.
int version_of_name(std::string_view name);

// Returns the layer of "blocks.<layer>.<rest>" and `rest`; nothing for other names.
struct LayerName {
  int64_t layer = 0;
  std::string_view rest;
};
std::optional<LayerName> layer_name(std::string_view name);

// Returns whether it is the name of a tuned initial state.
bool is_state_name(std::string_view name);

}  // namespace fulmar
