// Weights as bitsandbytes stores them: NF4 with scales and a description in separate tensors, and LLM.int8()
// with a scale for each row. Knows no file format: any file of tensors may hold these.
#pragma once

#include "base/result.h"
#include "files/checkpoint.h"

namespace fulmar {

// Replaces every group of tensors that stands for one matrix by that matrix, as codes: "X.weight" with
// "X.weight.absmax", ".quant_map", ".quant_state.bitsandbytes__nf4" and, where the scales are quantised as
// well, ".nested_absmax" and ".nested_quant_map"; or "X.weight" with "X.SCB" and "X.weight_format". The codes
// stay as they are stored; scales become f32 in memory, one for each part of a row (blocks run over the
// flattened matrix and may span rows). A matrix whose rows cannot be cut into parts of at least 32 weights is
// decoded to f32. Tensors of no such group stay as they are. Errors name the tensor: a part is missing, its
// type, count or value is not as the description says, or the kind is not NF4.
Status join_bitsandbytes(CheckpointParts& parts);

}  // namespace fulmar
