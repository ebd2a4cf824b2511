// Weights as bitsandbytes stores them: NF4 with scales and a description in tensors beside the codes, and
// LLM.int8() with a scale for each row. Knows no file format: whatever holds tensors may hold these.
#pragma once

#include "base/result.h"
#include "files/checkpoint.h"

namespace fulmar {

// Puts one coded matrix in the place of every group of tensors that stands for one: "X.weight" with
// "X.weight.absmax", ".quant_map", ".quant_state.bitsandbytes__nf4" and, where the scales are quantised as
// well, ".nested_absmax" and ".nested_quant_map"; or "X.weight" with "X.SCB" and "X.weight_format". Their
// codes stay as they are stored; scales become f32 in memory, one for each part of a row (blocks run over the
// flattened matrix and may span rows). Where rows do not fall into parts of at least 32 weights the matrix is
// decoded to f32. Tensors of no such group are left alone. Errors name the tensor: a part is missing, has
// another type, count or value than the description says, or the kind is another than NF4.
Status join_bitsandbytes(CheckpointParts& parts);

}  // namespace fulmar
