// The weights that models of every version have, as plain data; those of a version's blocks are in its room
// (rwkv7/weights.h, rwkv6/weights.h). Names are those of the checkpoint. Shapes are in the comments, with C
// embedding, F feed-forward and V vocabulary width, H heads of N channels, R low-rank widths. Vectors are f32
// tensors [1, n]; matrices are Weights [out, in] whatever the file's orientation was.
//
// In tensor parallel (ops/collective.h) each rank has its slice of H, F and V, and A = H * N of its own heads
// replaces C in every width that belongs to heads: outputs of receptance, key, value, gate and the second
// low-rank matrices, vectors of heads, and the inputs of `output`. On one rank A is C.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar {

constexpr float kLayerNormEps = 1e-5f;
// Part of the model, not a numerical guard: head variances lie below it.
constexpr float kHeadNormEps = 64e-5f;

enum class Activation : uint8_t { tanh, sigmoid, silu, relu_squared };

struct Norm {
  Tensor weight;  // [1, C]
  Tensor bias;    // [1, C]
};

// u = bias + act(x @ first^T) @ second^T; the island knows the activation.
struct LowRank {
  Weight first;   // [R, C]
  Weight second;  // [C, R]
  Tensor bias;    // [1, C]; empty for the gate
};

struct Embedding {
  Weight table;  // [V, C]
  Norm ln0;      // applied to the row right after the lookup; empty where the rows are normed already
};

struct Head {
  Norm ln_out;
  Weight matrix;  // [V, C]
};

}  // namespace fulmar
