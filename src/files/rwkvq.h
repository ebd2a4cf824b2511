// The .rwkvq archives of rwkv_lightning's CUDA server: W8A16 and W4A16 checkpoints with official names. Knows
// no models.
#pragma once

#include "base/result.h"
#include "files/bytes.h"
#include "files/checkpoint.h"

namespace fulmar {

bool looks_like_rwkvq(ByteSpan file);

// The tensors in the order of the file, codes and 16-bit numbers as views of `file`. int8 has a scale for
// each row, int4 one for each 32 or 128 weights of a row, two's complement, the low nibble first; scales are
// f16 in the file and f32 in memory, which `owners` keeps. A matrix whose rows are no whole groups is decoded
// to f32. Errors name the tensor and both values; every count is held against the bytes that are left.
Result<CheckpointParts> read_rwkvq(ByteSpan file);

}  // namespace fulmar
