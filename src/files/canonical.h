// Official tensor names, shapes and orientation, whatever program wrote the file.
#pragma once

#include <memory>

#include "base/result.h"
#include "files/checkpoint.h"

namespace fulmar {

// Knows the ways to name the tensors of RWKV-6 and RWKV-7: the official one, alone and behind "model." or
// "rwkv7." as Transformers' Rwkv7ForCausalLM has it, that of web-rwkv (.st), that of flash-linear-attention
// (RWKV-7 and RWKV-6) and that of the RWKV organisation's RWKV-6 models for Transformers. Gives views with
// other names and strides; only slices that must be reordered are copied, and those are small. Vectors may
// come out as [C] or [1, 1, C]: consumers accept both. Tensors it does not know keep their names, inside
// blocks under "blocks.<l>."; models it does not know pass unchanged, and identify() refuses them.
Result<std::unique_ptr<Checkpoint>> canonicalise(std::unique_ptr<Checkpoint> source);

}  // namespace fulmar
