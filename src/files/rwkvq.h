// Reads the .rwkvq archives of rwkv_lightning's CUDA server: W8A16 and W4A16 checkpoints with official names.
// Knows no models.
#pragma once

#include "base/result.h"
#include "files/bytes.h"
#include "files/checkpoint.h"

namespace fulmar {

bool looks_like_rwkvq(ByteSpan file);

// Returns the tensors in the file's order, codes and 16-bit numbers as views of `file`. int8 has a scale for
// each row, int4 one for each 32 or 128 weights of a row, two's complement, low nibble first; scales are f16
// in the file, f32 in memory of `owners`. A matrix whose rows are not whole groups is decoded to f32. Errors
// name the tensor and both values; every count is checked against the bytes left.
Result<CheckpointParts> read_rwkvq(ByteSpan file);

}  // namespace fulmar
