// A backend's islands in their default bodies, composed of its primitives: what its own are compared with.
#pragma once

#include "rwkv6/islands.h"
#include "rwkv7/islands.h"

namespace fulmar::cases {

class Composed7 final : public Islands7 {
 public:
  explicit Composed7(Ops& ops) : Islands7(ops), own_(ops.rwkv7()) {}

  void key_prepare(const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) override {
    own_.key_prepare(att, k, alpha, kk);
  }
  void wkv(const Batch& batch, const TimeMix7& att, const Projected7& p, StateField state,
           Tensor y) override {
    own_.wkv(batch, att, p, state, y);
  }
  void bonus(const TimeMix7& att, const Projected7& p, Tensor y) override { own_.bonus(att, p, y); }
  void deep_embed(const Batch& batch, const Embedding& embedding, const ChannelMix7& ffn, Tensor z,
                  Tensor scale) override {
    own_.deep_embed(batch, embedding, ffn, z, scale);
  }

 private:
  Islands7& own_;
};

class Composed6 final : public Islands6 {
 public:
  explicit Composed6(Ops& ops) : Islands6(ops), own_(ops.rwkv6()) {}

  void wkv(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
           Tensor y) override {
    own_.wkv(batch, att, p, state, y);
  }

 private:
  Islands6& own_;
};

}  // namespace fulmar::cases
