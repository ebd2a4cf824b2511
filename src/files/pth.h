// Reads PyTorch checkpoints: the zip archive of torch 1.6 and later, and the stream of pickles before it.
// Nothing in a file is executed. Knows no models.
#pragma once

#include "base/result.h"
#include "files/bytes.h"
#include "files/checkpoint.h"

namespace fulmar {

bool looks_like_pth(ByteSpan file);

// Returns the tensors of a state dict, as views of `file`, in the order of the dict; unwraps one level of
// "state_dict", "model" or "module" around it. Several tensors may share a storage, at any offset and with
// any strides >= 0. `files` and `owners` of the result are empty.
Result<CheckpointParts> read_pth(ByteSpan file);

}  // namespace fulmar
