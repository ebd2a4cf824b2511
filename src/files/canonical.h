// Converts tensor names, shapes and orientation to the official ones, whatever program wrote the file.
#pragma once

#include <memory>

#include "base/result.h"
#include "files/checkpoint.h"

namespace fulmar {

// Converts from the known namings of RWKV-6 and RWKV-7 tensors: the official one, alone and after "model." or
// "rwkv7." as Transformers' Rwkv7ForCausalLM has it, that of web-rwkv (.st), that of flash-linear-attention
// (RWKV-7 and RWKV-6) and that of the RWKV organisation's RWKV-6 models for Transformers. The results are
// views with other names and strides; only slices that must be reordered are copied, and those are small.
// Vectors may have the shape [C] or [1, 1, C]: consumers accept both. Unknown tensors keep their names,
// inside blocks under "blocks.<l>."; unknown models pass unchanged, and identify() refuses them.
Result<std::unique_ptr<Checkpoint>> canonicalise(std::unique_ptr<Checkpoint> source);

}  // namespace fulmar
