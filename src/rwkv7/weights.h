// The weights of a block of RWKV-7 and of RWKV-7a, and the tensors between its islands. Shapes as in
// ops/args.h.
#pragma once

#include "ops/args.h"

namespace fulmar {

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

// Outputs of project, inputs of recur and leave; all [rows, A] in the activation type.
struct Projected7 {
  Tensor r, k, v, g;
  // Decay before its activation: w = exp(-exp(-0.5) * sigmoid(u)), evaluated in f32 by the recurrence.
  Tensor u;
  Tensor kk;     // normalised per head, from k before it was scaled by alpha
  Tensor alpha;  // in-context learning rate, (0, 1)
};

}  // namespace fulmar
