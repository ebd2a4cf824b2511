// What a backend computes of RWKV-6: a primitive that it must write, and islands that it may override. What
// an island is: rwkv7/islands.h.
#pragma once

#include <span>

#include "ops/batch.h"
#include "ops/ops.h"
#include "ops/state_field.h"
#include "rwkv6/weights.h"

namespace fulmar {

class Islands6 {
 public:
  explicit Islands6(Ops& ops) : ops_(ops) {}
  virtual ~Islands6() = default;
  Islands6(const Islands6&) = delete;
  Islands6& operator=(const Islands6&) = delete;

  // Computes the recurrence per head, a primitive; state in place, value-major; y [rows, C]
  virtual void wkv(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
                   Tensor y) = 0;

  // ---- islands

  // Computes x += pending; z = norm(x); mixed[i] = the data-dependent mixes of z, in the order w k v r g
  virtual void enter(const Batch& batch, const TimeMix6& att, Tensor x, Addend pending, StateField att_shift,
                     std::span<const Tensor, 5> mixed);
  virtual void project(const Batch& batch, const TimeMix6& att, std::span<const Tensor, 5> mixed,
                       const Projected6& p);
  virtual void recur(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
                     Tensor y);
  // Computes pending = (head_norm(y) * g) @ output^T; overwrites y
  virtual void leave(const Batch& batch, const TimeMix6& att, const Projected6& p, Tensor y, Tensor pending);
  // Runs recur, then leave; y [rows, C] is working memory. For backends that fuse both.
  virtual void attend(const Batch& batch, const TimeMix6& att, const Projected6& p, StateField state,
                      Tensor y, Tensor pending);
  // Computes x += addend; pending = relu²(lerp(z) @ key^T) @ value^T * sigmoid(lerp(z) @ receptance^T)
  virtual void channel_mix(const Batch& batch, const ChannelMix6& ffn, Tensor x, Addend addend,
                           StateField ffn_shift, Tensor pending);

 protected:
  using Scratch = Ops::Scratch;

  Ops& ops_;
};

}  // namespace fulmar
