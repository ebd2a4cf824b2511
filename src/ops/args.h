// The weights of each island, as plain data. Names are those of the checkpoint. Shapes are in the comments,
// with C embedding, F feed-forward and V vocabulary width, H heads of N channels, R low-rank widths. Vectors
// are f32 tensors [1, n]; matrices are Weights [out, in] whatever the file's orientation was.
//
// In tensor parallel (ops/collective.h) each rank has its slice of H, F and V, and A = H * N of its own heads
// replaces C in every width that belongs to heads: outputs of receptance, key, value, gate and the second
// low-rank matrices, vectors of heads, and the inputs of `output`. On one rank A is C.
#pragma once

#include <array>

#include "ops/state.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar {

class Collective;

constexpr float kLayerNormEps = 1e-5f;
constexpr float kHeadNormEps =
    64e-5f;  // part of the model, not a numerical guard: head variances lie below it

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

// RWKV-7 time mixing.
struct TimeMix7 {
  int64_t n_head = 0;
  int64_t head_size = 0;
  Norm ln1;
  Tensor mix;                             // [6, C] in the order r, w, k, v, a, g
  Weight receptance, key, value, output;  // [C, C]
  LowRank w;                              // decay: bias w0
  LowRank a;                              // in-context learning rate: bias a0
  LowRank v;                              // value residual: bias v0; empty in block 0
  LowRank g;                              // gate: no bias
  Tensor k_k, k_a;                        // [1, C]
  Tensor r_k;                             // [1, C], head after head
  Norm ln_x;                              // [1, C] each, one group per head
};

// RWKV-7 channel mixing; the deep-embed members exist in RWKV-7a only.
struct ChannelMix7 {
  Norm ln2;
  Tensor mix;    // [1, C]
  Weight key;    // [F, C]
  Weight value;  // [C, F]

  bool deep_embed = false;
  int64_t deep_rank = 0;  // D
  Weight s_emb;           // [V, D*D], rows are gathered
  Weight s_emb_x;         // [D*D, C], applied to ln0 of the token's embedding
  Weight s1;              // [D, C]
  Weight s2;              // [F, D]
  Tensor s0;              // [1, F]
};

// RWKV-6 time mixing.
struct TimeMix6 {
  int64_t n_head = 0;
  int64_t head_size = 0;
  Norm ln1;
  Tensor mix_x;                                 // [1, C], time_maa_x
  Tensor mix;                                   // [5, C] in the order w, k, v, r, g
  Weight mix_w1;                                // [5*Rm, C]
  Weight mix_w2[5];                             // each [C, Rm], in the order w, k, v, r, g
  Weight receptance, key, value, gate, output;  // [C, C]
  LowRank w;                                    // decay: bias time_decay
  Tensor u;                                     // [1, C], time_faaaa, head after head
  Norm ln_x;
};

// RWKV-6 channel mixing.
struct ChannelMix6 {
  Norm ln2;
  Tensor mix_k, mix_r;  // [1, C]
  Weight key;           // [F, C]
  Weight value;         // [C, F]
  Weight receptance;    // [C, C]
};

struct Head {
  Norm ln_out;
  Weight matrix;  // [V, C]
};

// Outputs of project7, inputs of recur7 and leave7; all [rows, A] in the activation type.
struct Projected7 {
  Tensor r, k, v, g;
  Tensor
      u;  // decay before its activation: w = exp(-exp(-0.5) * sigmoid(u)), evaluated in f32 by the recurrence
  Tensor kk;     // normalised per head, from k before it was scaled by alpha
  Tensor alpha;  // in-context learning rate, (0, 1)
};

// One block of RWKV-7, its fields of the state, and working memory: mixed and pending [rows, C], the rest
// [rows, A], in the activation type. v_first holds block 0's values for the later blocks; v_first_wide, f32
// [1, A], the same for backends that keep f32 at batch 1, or empty.
struct Block7 {
  const TimeMix7& att;
  const ChannelMix7& ffn;
  bool first;
};
struct Block7State {
  StateField att_shift, wkv, ffn_shift;
};
struct Block7Work {
  std::array<Tensor, 6> mixed;
  Tensor v_first, v_first_wide;
  Projected7 p;
  Tensor y, pending;
  Collective* ranks = nullptr;  // that share the block; null: not split
};

// Outputs of project6, inputs of recur6 and leave6; all [rows, A] in the activation type.
struct Projected6 {
  Tensor r, k, v, g;
  Tensor u;  // decay before its activation: w = exp(-exp(u)), evaluated in f32 by the recurrence
};

}  // namespace fulmar
