// Row primitives (rows.cu): embedding, norm, token shift, mixes and elementwise maths. Shapes as in
// ops/ops.h.
#pragma once

#include "gpu/device/device.h"
#include "ops/batch.h"
#include "ops/state_field.h"
#include "rwkv7/weights.h"

namespace fulmar::gpu {

void embed(const Queue&, const Batch&, const Embedding&, Tensor out);
void add(const Queue&, Tensor x, Tensor pending);
// Sets x += pending (empty: zero) and z = layer_norm(x).
void add_norm(const Queue&, Tensor x, Tensor pending, const Norm&, Tensor z);
void shift(const Queue&, const Batch&, Tensor z, StateField carry, Tensor out);
// Appends z of the rows that may be rolled back to the ring of a restored field, whose ring has z's type.
void keep_rows(const Queue&, const Batch&, Tensor z, StateField carry);
// Restores the fields of all layers of a slot that its ring has copies of, from row `ring_row` of it.
void restore_fields(const Queue&, const State&, int64_t slot, int64_t ring_row);
void lerp(const Queue&, Tensor z, Tensor other, Tensor mix, Tensor out);
void lerp_shifted(const Queue&, Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out);
void multiply(const Queue&, Tensor a, Tensor b, Tensor out);
void multiply_sigmoid(const Queue&, Tensor x, Tensor raw);  // x *= sigmoid(raw)
void narrow(const Queue&, Tensor wide, Tensor out);         // f32 to activation type
void gather_rows(const Queue&, Tensor x, const int32_t* rows, Tensor out);
// Sets transformed[t] = low[t] @ (s_emb[token] + matrix[t]) as [D, D] (RWKV-7a).
void transform_by_token(const Queue&, const Batch&, const ChannelMix7&, Tensor matrix, Tensor low,
                        Tensor transformed);

}  // namespace fulmar::gpu
