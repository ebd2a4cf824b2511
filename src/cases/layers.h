// Layers of random weights for tests and benchmarks of islands: one place that lists a layer's matrices and
// vectors.
#pragma once

#include <cstdint>

#include "rwkv6/weights.h"
#include "rwkv7/weights.h"

namespace fulmar::cases {

struct LayerShape {
  int64_t n_head = 0, head_size = 64;
  int64_t n_ffn = 0;                                       // F
  int64_t rank_w = 0, rank_a = 0, rank_v = 0, rank_g = 0;  // R of the low-rank paths, RWKV-7
  int64_t rank_mix = 0, rank_decay = 0;                    // the same, RWKV-6
  int64_t deep_rank = 8, deep_vocab = 8;                   // RWKV-7a
  int64_t vocab = 72;                                      // of the head

  int64_t width() const { return n_head * head_size; }  // C
};

// Makes the numbers: each caller generates and stores them in its own way.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual Weight weight(int64_t out, int64_t in, WeightRole role) = 0;
  // Returns an f32 tensor [rows, cols] of numbers in [low, high).
  virtual Tensor vector(int64_t rows, int64_t cols, double low, double high) = 0;
  virtual Norm norm(int64_t cols) = 0;
};

// Makes a layer's time mix; block 0 has no value residual.
TimeMix7 make_time_mix7(WeightSource&, const LayerShape&, bool first_block);
// Makes a layer's channel mix; deep: with the deep embeddings of RWKV-7a.
ChannelMix7 make_channel_mix7(WeightSource&, const LayerShape&, bool deep);
TimeMix6 make_time_mix6(WeightSource&, const LayerShape&);
ChannelMix6 make_channel_mix6(WeightSource&, const LayerShape&);

}  // namespace fulmar::cases
