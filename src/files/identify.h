// What model a checkpoint holds: version and sizes from names and shapes alone.
#pragma once

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"

namespace fulmar {

// `checkpoint` has official names (canonicalise). On success every tensor that the forward needs is there,
// with the right shape and as f32, f16 or bf16: matrices exactly as the official shape says, vectors with any
// unit axes more or fewer. Other architectures are refused by name ("unsupported"), missing and misshapen
// tensors with what was found and wanted ("corrupt"). Unknown tensors inside blocks are refused, since
// ignoring them would change the maths; those outside become oddities.
Result<ModelConfig> identify(const Checkpoint& checkpoint);

}  // namespace fulmar
