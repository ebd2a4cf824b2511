// Identifies the model of a checkpoint: version and sizes, from names and shapes alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"

namespace fulmar {

// Returns the model's sizes; `checkpoint` has official names (canonicalise). On success every tensor that the
// forward pass needs exists, with the right shape and as f32, f16 or bf16: matrices exactly in the official
// shape, vectors with any unit axes added or missing. Errors: unsupported, for other architectures, by name;
// corrupt, for missing and misshapen tensors, with what was found and wanted, and for unknown tensors inside
// blocks, since ignoring them would change the maths. Those outside become oddities.
Result<ModelConfig> identify(const Checkpoint& checkpoint);

// Returns whether no forward reads blocks.<layer>.<rest>, which some files hold: RWKV-7's first block has no
// value residual.
bool is_unused(int version, int64_t layer, std::string_view rest);

}  // namespace fulmar
