// Matrices with separate scales, in files that know only plain tensors: "X.weight" holds the codes and
// "X.weight.scale" the scales; NF4 is stored as bitsandbytes does.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"

namespace fulmar {

// int8 and FP8 codes keep their type and shape [out, in]; int4 is u8 [out, in / 2]; scales are f32 [out,
// groups]. Other tensors are unchanged. `owners` hold new memory; other views are of the source.
struct PlainTensors {
  std::vector<StoredTensor> tensors;
  std::vector<std::shared_ptr<const void>> owners;
};
PlainTensors split_codes(std::span<const StoredTensor> tensors);

// Joins what split_codes splits, except NF4, which join_bitsandbytes handles. One scale may serve the matrix,
// a row, or 32, 64, 128 or 256 weights of a row. Refuses codes without scales, so it must run after
// join_bitsandbytes. Errors name the tensor, what was found and what was wanted.
Status join_codes(CheckpointParts& parts);

}  // namespace fulmar
