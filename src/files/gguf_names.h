// The tensor names of RWKV models in GGUF files and what must be done to each tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fulmar {

enum class GgufPart : uint8_t {
  plain,            // as it is
  matrix,           // [out, in], may be in blocks
  rescaled_matrix,  // likewise; RWKV-6 files may hold it divided by a power of two
  transposed,       // the last two axes change places
  heads,            // [C] or [H, N], officially [H, N]
  stacked_mixes,    // the vectors of mix_names in one tensor
  unused,           // never read
};

struct GgufName {
  std::string official;
  GgufPart part = GgufPart::plain;
  int64_t layer = -1;  // -1: outside of blocks
};

// Returns the official name; names that these models do not have stay, after "blocks.<l>." or as a whole.
GgufName official_name(std::string_view gguf, int version);
// Returns the GGUF name of a tensor other than a mix; nothing if GGUF has none.
std::optional<std::string> gguf_name(std::string_view official, int version);

// Returns the official names, inside a block, of the vectors in time_mix_lerp_fused, in its order.
std::span<const std::string_view> mix_names(int version);

}  // namespace fulmar
