// Matrices with scales beside their codes, in files that know plain tensors only: "X.weight" holds the codes
// and "X.weight.scale" the scales; NF4 lies there as bitsandbytes stores it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"

namespace fulmar {

// int8 and FP8 codes keep their type and shape [out, in]; int4 is u8 [out, in / 2]; scales are f32
// [out, groups]. Other tensors pass as they are. `owners` hold what is new; views are of the source.
struct PlainTensors {
  std::vector<StoredTensor> tensors;
  std::vector<std::shared_ptr<const void>> owners;
};
PlainTensors split_codes(std::span<const StoredTensor> tensors);

// The inverse, but for NF4, which join_bitsandbytes knows. One scale may serve the matrix, a row, or 32, 64,
// 128 or 256 weights of a row. Codes without scales are refused, after join_bitsandbytes has had its own.
// Errors name the tensor, what was found and what was wanted.
Status join_codes(CheckpointParts& parts);

}  // namespace fulmar
