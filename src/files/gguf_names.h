// The tensor names of RWKV models in GGUF files and what must be done to each tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/versions.h"

namespace fulmar {

struct GgufName {
  std::string official;
  GgufPart part = GgufPart::plain;
  int64_t layer = -1;  // -1: outside of blocks
};

// Returns general.architecture of a version's files, "rwkv7".
std::string architecture_of(int version);

// Returns the official name; names that these models do not have stay, after "blocks.<l>." or as a whole.
GgufName official_name(std::string_view gguf, int version);
// Returns the GGUF name of a tensor; nothing if GGUF has none.
std::optional<std::string> gguf_name(std::string_view official, int version);

// Returns the tensor of a version that has an official name, "blocks.<l>." included; null: none has.
const ModelTensor* model_tensor(std::string_view official, int version);

// Returns the official names, inside a block, of the vectors in time_mix_lerp_fused, in its order.
std::vector<std::string_view> mix_names(int version);

}  // namespace fulmar
