// Norms, token shift, mixes and elementwise maths on f32 rows; each row is one task of the pool.
#include "cpu/norm_mix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/row_math.h"
#include "tensor/quantise.h"

namespace fulmar::cpu {

namespace {

constexpr int64_t kElementsPerTask = 16 * 1024;

// Calls body(row) for every row, several at a time where rows are short.
template <class Body>
void for_rows(ThreadPool& pool, int64_t rows, int64_t cols, Body body) {
  const int64_t grain = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, cols));
  pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) body(row);
  });
}

}  // namespace

void read_row(const Weight& table, int64_t index, float* out) {
  decode_row(table, index, {out, static_cast<size_t>(table.in)});
}

void embed(ThreadPool& pool, const Batch& batch, const Embedding& embedding, Tensor out) {
  for_rows(pool, batch.rows, out.cols, [&](int64_t t) {
    float* row = out.row<float>(t);
    read_row(embedding.table, batch.token[t], row);
    if (embedding.ln0.weight.empty()) return;
    normalise(row, embedding.ln0.weight.as<float>(), embedding.ln0.bias.as<float>(), out.cols, kLayerNormEps,
              row);
  });
}

void add(ThreadPool& pool, Tensor x, Tensor addend) {
  for_rows(pool, x.rows, x.cols, [&](int64_t t) { add_to(x.row<float>(t), addend.row<float>(t), x.cols); });
}

void norm(ThreadPool& pool, Tensor x, const Norm& norm, Tensor out) {
  for_rows(pool, x.rows, x.cols, [&](int64_t t) {
    normalise(x.row<float>(t), norm.weight.as<float>(), norm.bias.as<float>(), x.cols, kLayerNormEps,
              out.row<float>(t));
  });
}

void shift(ThreadPool& pool, const Batch& batch, Tensor z, StateField carry, Tensor out) {
  const size_t bytes = static_cast<size_t>(z.cols) * sizeof(float);
  for_rows(pool, batch.sequences, z.cols, [&](int64_t s) {
    const int64_t first = batch.start[s], end = batch.start[s + 1];
    float* carried = carry.at<float>(batch.slot[s]);
    std::memcpy(out.row<float>(first), carried, bytes);
    for (int64_t t = first + 1; t < end; t++) std::memcpy(out.row<float>(t), z.row<float>(t - 1), bytes);
    std::memcpy(carried, z.row<float>(end - 1), bytes);
  });
  keep_rows(pool, batch, z, carry);
}

void keep_rows(ThreadPool& pool, const Batch& batch, Tensor z, StateField carry) {
  if (!batch.revocable) return;
  for_rows(pool, batch.rows, z.cols, [&](int64_t t) {
    const int32_t s = batch.sequence_of[t];
    const RingStep& step = batch.ring[s];
    const int64_t own = t - batch.start[s];
    if (step.keeps == 0 || batch.start[s + 1] - batch.start[s] == 1) return;
    std::memcpy(carry.ring.row(batch.slot[s], 0, step.first + step.held + own), z.row<float>(t),
                static_cast<size_t>(z.cols) * sizeof(float));
  });
}

void lerp(ThreadPool& pool, Tensor z, Tensor other, Tensor mix, Tensor out) {
  for_rows(pool, z.rows, z.cols, [&](int64_t t) {
    lerp_to(z.row<float>(t), other.row<float>(t), mix.row<float>(mix.rows == 1 ? 0 : t), z.cols,
            out.row<float>(t));
  });
}

void lerp_shifted(ThreadPool& pool, Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) {
  for_rows(pool, z.rows, z.cols, [&](int64_t t) {
    lerp_shifted_to(z.row<float>(t), other.row<float>(t), mix.as<float>(), delta.row<float>(t), z.cols,
                    out.row<float>(t));
  });
}

void activate(ThreadPool& pool, Tensor x, Tensor bias, Activation act) {
  for_rows(pool, x.rows, x.cols,
           [&](int64_t t) { activate_in_place(x.row<float>(t), bias.as<float>(), x.cols, act); });
}

void add_bias(ThreadPool& pool, Tensor x, Tensor bias) {
  for_rows(pool, x.rows, x.cols, [&](int64_t t) { add_to(x.row<float>(t), bias.as<float>(), x.cols); });
}

void multiply(ThreadPool& pool, Tensor a, Tensor b, Tensor out) {
  for_rows(pool, a.rows, a.cols,
           [&](int64_t t) { multiply_to(a.row<float>(t), b.row<float>(t), a.cols, out.row<float>(t)); });
}

void key_prepare7(ThreadPool& pool, const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) {
  for_rows(pool, k.rows, k.cols, [&](int64_t t) {
    for (int64_t at = 0; at < k.cols; at += att.head_size) {
      prepare_key(k.row<float>(t) + at, alpha.row<float>(t) + at, att.k_k.as<float>() + at,
                  att.k_a.as<float>() + at, att.head_size, kk.row<float>(t) + at);
    }
  });
}

void normalise_heads(const Norm& ln_x, int64_t head_size, int64_t cols, float* row) {
  for (int64_t at = 0; at < cols; at += head_size) {
    normalise(row + at, ln_x.weight.as<float>() + at, ln_x.bias.as<float>() + at, head_size, kHeadNormEps,
              row + at);
  }
}

void head_norm(ThreadPool& pool, int64_t n_head, const Norm& ln_x, Tensor y) {
  for_rows(pool, y.rows, y.cols,
           [&](int64_t t) { normalise_heads(ln_x, y.cols / n_head, y.cols, y.row<float>(t)); });
}

void bonus7(ThreadPool& pool, const TimeMix7& att, const Projected7& p, Tensor y) {
  for_rows(pool, y.rows, y.cols, [&](int64_t t) {
    for (int64_t at = 0; at < y.cols; at += att.head_size) {
      add_bonus(p.r.row<float>(t) + at, p.k.row<float>(t) + at, att.r_k.as<float>() + at,
                p.v.row<float>(t) + at, att.head_size, y.row<float>(t) + at);
    }
  });
}

void multiply_by_token(ThreadPool& pool, const Batch& batch, const ChannelMix7& ffn, Tensor matrix,
                       Tensor low, Tensor product) {
  const int64_t rank = ffn.deep_rank;
  for_rows(pool, batch.rows, rank * rank, [&](int64_t t) {
    std::vector<float> table(static_cast<size_t>(rank * rank));
    read_row(ffn.s_emb, batch.token[t], table.data());
    for (int64_t i = 0; i < rank * rank; i++) table[i] += matrix.row<float>(t)[i];
    float* out = product.row<float>(t);
    std::fill(out, out + rank, 0.0f);
    for (int64_t d = 0; d < rank; d++) {
      for (int64_t e = 0; e < rank; e++) out[e] += low.row<float>(t)[d] * table[d * rank + e];
    }
  });
}

void gather_rows(ThreadPool& pool, Tensor x, const int32_t* rows, Tensor out) {
  for_rows(pool, out.rows, out.cols, [&](int64_t i) {
    std::memcpy(out.row<float>(i), x.row<float>(rows[i]), static_cast<size_t>(x.cols) * sizeof(float));
  });
}

}  // namespace fulmar::cpu
