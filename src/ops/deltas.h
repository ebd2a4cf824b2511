// What adapters change in a model's matrices, for the rows of some sequences. Weights stay as they are: a
// backend adds these changes to its products, so blocks do not know of them.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar {

struct StepInput;

// The change of one matrix W [out, in], in the memory of W's device. With u = x, q = scale * up (down u) and
// the sequence's scale t a product y = W x becomes
//   y + t * q                       plain (LoRA, MiSS)
//   y + t * (gain * (y + q) - y)    with a gain (DoRA by outputs)
//   y + t * (W u + q - y)           with an input gain, where u = input_gain * x (DoRA by inputs)
//   y + t * (W u + q)               with blocks, where u is blocks times x, R inputs at a time (Bat by
//   inputs)
struct MatrixDelta {
  int64_t rank = 0;         // R, at least 1
  Weight down;              // [R, in], plain rows; empty: sums over the inputs of equal number modulo R
  int64_t first_input = 0;  // number of input 0 in the whole matrix, a multiple of R where there are blocks
  Weight up;                // [out, R], plain rows; empty: output o is number o mod R
  int64_t first_output = 0;
  float scale = 1;
  Tensor gain;             // f32 [out, 1]; empty: none
  Tensor input_gain;       // f32 [in, 1]; empty: none
  Tensor blocks;           // f32 [in, R], a block's rows are its outputs; empty: none
  bool of_wanted = false;  // W is the head: its rows are the wanted rows of a step
};

class Ops;

// An adapter's changes on all devices of a model.
struct DeltaSet {
  std::unordered_map<const void*, MatrixDelta> of;  // by Weight::data of the matrices
  std::unordered_map<const Ops*, Buffer> tables;  // what a device's kernels read of them (Ops::index_deltas)
};

// What a sequence of a step is computed with.
struct SequenceDeltas {
  const DeltaSet* deltas = nullptr;  // null: the model alone. Outlives the step
  float scale = 1;                   // t; 0: the model alone
};

// Rows [first, first + count) of a step that are computed with the same deltas and scale.
struct DeltaRows {
  int64_t first = 0;
  int64_t count = 0;
  SequenceDeltas by;
};

// The rows of a step that have deltas: numbered as they are packed, and as they are wanted.
struct StepDeltas {
  std::vector<DeltaRows> packed, wanted;

  bool empty() const { return packed.empty(); }
};

// Returns a step's rows with deltas, ascending; neighbours with equal deltas are one range.
StepDeltas deltas_of(const StepInput& input);

}  // namespace fulmar
