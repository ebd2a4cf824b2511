// The tensor names of RWKV models in GGUF files and what has to be done to each.
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
  unused,           // never read by anyone
};

struct GgufName {
  std::string official;
  GgufPart part = GgufPart::plain;
  int64_t layer = -1;  // -1: outside of blocks
};

// Names that are none of these models' keep their text behind "blocks.<l>." or as a whole.
GgufName official_name(std::string_view gguf, int version);
// The inverse, for tensors other than mixes; nothing for names that GGUF has no place for.
std::optional<std::string> gguf_name(std::string_view official, int version);

// Official names, inside a block, of what time_mix_lerp_fused holds, in its order.
std::span<const std::string_view> mix_names(int version);

}  // namespace fulmar
