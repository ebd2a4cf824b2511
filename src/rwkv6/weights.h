// The weights of a block of RWKV-6, and the tensors between its islands. Shapes as in ops/args.h.
#pragma once

#include "ops/args.h"

namespace fulmar {

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

// Outputs of project, inputs of recur and leave; all [rows, A] in the activation type.
struct Projected6 {
  Tensor r, k, v, g;
  Tensor u;  // decay before its activation: w = exp(-exp(u)), evaluated in f32 by the recurrence
};

}  // namespace fulmar
