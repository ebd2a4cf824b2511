// Norms, token shift, mixes and elementwise maths of the CPU backend, on f32 rows. Meanings, shapes and
// aliasing rules are those of the primitives of the same names in ops/ops.h.
#pragma once

#include "cpu/thread_pool.h"
#include "ops/ops.h"
#include "rwkv7/weights.h"

namespace fulmar::cpu {

// Reads row `index` of a gathered matrix as f32 into out [table.in].
void read_row(const Weight& table, int64_t index, float* out);

void embed(ThreadPool& pool, const Batch& batch, const Embedding& embedding, Tensor out);
void add(ThreadPool& pool, Tensor x, Tensor addend);
void norm(ThreadPool& pool, Tensor x, const Norm& norm, Tensor out);
void shift(ThreadPool& pool, const Batch& batch, Tensor z, StateField carry, Tensor out);
// Appends z of the rows that may be rolled back to the ring of a restored field; does nothing in other steps.
void keep_rows(ThreadPool& pool, const Batch& batch, Tensor z, StateField carry);
void lerp(ThreadPool& pool, Tensor z, Tensor other, Tensor mix, Tensor out);
void lerp_shifted(ThreadPool& pool, Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out);
void activate(ThreadPool& pool, Tensor x, Tensor bias, Activation act);
void add_bias(ThreadPool& pool, Tensor x, Tensor bias);
void multiply(ThreadPool& pool, Tensor a, Tensor b, Tensor out);
void key_prepare7(ThreadPool& pool, const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk);
// Normalises each head of one row of `cols` channels, in place.
void normalise_heads(const Norm& ln_x, int64_t head_size, int64_t cols, float* row);
void head_norm(ThreadPool& pool, int64_t n_head, const Norm& ln_x, Tensor y);
void bonus7(ThreadPool& pool, const TimeMix7& att, const Projected7& p, Tensor y);
// Computes product[t] = low[t] @ (s_emb[token] + matrix[t]) reshaped to [D, D]; the
// middle of RWKV-7a's deep embedding.
void multiply_by_token(ThreadPool& pool, const Batch& batch, const ChannelMix7& ffn, Tensor matrix,
                       Tensor low, Tensor product);
void gather_rows(ThreadPool& pool, Tensor x, const int32_t* rows, Tensor out);

}  // namespace fulmar::cpu
