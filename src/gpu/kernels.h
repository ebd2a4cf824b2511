// What the .cu files offer: one function per kernel, shapes as in ops/ops.h. Rows are taken from the tensors.
// Nothing here allocates or waits.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "gpu/device.h"
#include "ops/ops.h"

namespace fulmar::gpu {

// Calls f with a value of the element type that a 16-bit activation dtype stands for.
template <class F>
void with_activation(DType dtype, F&& f) {
  dtype == DType::bf16 ? f(BFloat{}) : f(Half{});
}

// ---- rows.cu: primitives on rows
void embed(const Queue&, const Batch&, const Embedding&, Tensor out);
void add(const Queue&, Tensor x, Tensor pending);
// z = layer_norm(x + pending), x updated; an empty pending counts as zero
void add_norm(const Queue&, Tensor x, Tensor pending, const Norm&, Tensor z);
void shift(const Queue&, const Batch&, Tensor z, StateField carry, Tensor out);
void lerp(const Queue&, Tensor z, Tensor other, Tensor mix, Tensor out);
void lerp_shifted(const Queue&, Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out);
void activate(const Queue&, Tensor x, Tensor bias, Activation);
void add_bias(const Queue&, Tensor x, Tensor bias);
void multiply(const Queue&, Tensor a, Tensor b, Tensor out);
void multiply_sigmoid(const Queue&, Tensor x, Tensor raw);  // x *= sigmoid(raw)
void narrow(const Queue&, Tensor wide, Tensor out);         // f32 to activation type
void gather_rows(const Queue&, Tensor x, const int32_t* rows, Tensor out);
// RWKV-7a: turned[t] = low[t] @ (s_emb[token] + matrix[t]) as [D, D]
void turn_by_token(const Queue&, const Batch&, const ChannelMix7&, Tensor matrix, Tensor low, Tensor turned);

// Weights that one of the next kernels wants, for kernels that leave the memory idle; see ahead.h.
constexpr int kMostAhead = 5;
struct Ahead {
  const void* data[kMostAhead] = {};
  uint32_t bytes[kMostAhead] = {};
};

// ---- enter.cu: the beginning of each half block
struct Mixes {
  int count = 0;
  const float* mix[6] = {};  // each [C]; null: 1, which gives the shifted z itself
  Tensor out[6];             // each [rows, C]
};
// Rows that follow one another are shared out among blocks.
struct EnterPlan {
  int64_t each = 0, blocks = 0;  // rows of a block
};
EnterPlan plan_enter(const Batch&, int64_t cols, int multiprocessors);
// x += pending; z = norm(x); out[i] = lerp(z, shifted z, mix[i]). `z` [rows, C] is written where it is not
// empty. fronts: [2 * plan.blocks, C], working memory.
void enter(const Queue&, const Batch&, const Norm&, Tensor x, Tensor pending, StateField carry, const Mixes&,
           Tensor z, const EnterPlan&, Tensor fronts, const Ahead& = {});

// ---- heads.cu: what happens within heads
void key_prepare7(const Queue&, const TimeMix7&, Tensor k, Tensor alpha, Tensor kk);
void head_norm(const Queue&, int64_t n_head, const Norm&, Tensor y);
void bonus7(const Queue&, const TimeMix7&, const Projected7&, Tensor y);
// y = (head_norm(y) + bonus) * g, in place; heads of 64
void leave_heads7(const Queue&, const TimeMix7&, const Projected7&, Tensor y);
// The same where `agreement` (f32 [rows, heads]: sums of r * k * r_k) is known.
void leave_heads7(const Queue&, const TimeMix7&, Tensor agreement, Tensor v, Tensor g, Tensor y);
// y = head_norm(y) * g, in place; heads of 64
void leave_heads6(const Queue&, const TimeMix6&, Tensor g, Tensor y);
// From raw products to what project7 promises, in place: u += bias; alpha = sigmoid(alpha + bias); value
// residual by sigmoid(share + bias), or v_first <- v in the first block; key preparation. Heads of 64.
void finish_project7(const Queue&, const TimeMix7&, bool first_block, Tensor v_first, Tensor share,
                     const Projected7&);

// ---- wkv.cu: both recurrences token by token
// Sequences of more than `longest` rows are skipped. With `leaves` (heads of 64 only) y is not the
// recurrence's output but what the output product takes: (head_norm(it) + bonus) * g, without bonus in
// RWKV-6.
void wkv7(const Queue&, const Batch&, const TimeMix7&, const Projected7&, StateField wkv, Tensor y,
          int64_t longest, bool leaves = false);
void wkv6(const Queue&, const Batch&, const TimeMix6&, const Projected6&, StateField wkv, Tensor y,
          int64_t longest, bool leaves = false);

// ---- wkv7_chunk.cu: the recurrence of long sequences on matrix units, heads of 64
constexpr int kChunk = 16;  // rows of one chunk
// Pieces of at most kChunk rows that never cross a sequence's end, in order; index arrays on the device.
struct Chunks {
  int64_t count = 0;
  const int32_t* row = nullptr;    // [count], first row
  const int32_t* rows = nullptr;   // [count]
  const int32_t* begin = nullptr;  // [sequences + 1], first chunk of each sequence; none for short ones
};
size_t wkv7_chunk_workspace(int64_t chunks, int64_t n_head);  // bytes
// For p that holds raw products: what finish_project7 would do, done on the way. Of the results only v (or
// v_first) is written.
struct RawProjected7 {
  const TimeMix7* att = nullptr;  // null: p is what project7 promises
  Tensor share;                   // empty in the first block
  Tensor v_first;                 // written in the first block
  Tensor agreement;               // f32 [rows, heads], for leave_heads7
};
void wkv7_chunk_prepare(const Queue&, const Chunks&, int64_t n_head, const Projected7&, const RawProjected7&,
                        void* workspace);
void wkv7_chunk_walk(const Queue&, const Batch&, const Chunks&, int64_t n_head, StateField wkv, Tensor y,
                     const void* workspace, int multiprocessors);

// ---- wkv6_chunk.cu: the same for RWKV-6
size_t wkv6_chunk_workspace(int64_t chunks, int64_t n_head);  // bytes
void wkv6_chunk(const Queue&, const Batch&, const Chunks&, int64_t n_head, const float* bonus,
                const Projected6&, StateField wkv, Tensor y, void* workspace, int multiprocessors);

// ---- linear_rows.cu: products for few rows, every weight read once
enum class Epilogue : uint8_t { none, tanh, sigmoid, silu, relu_squared };
struct RowsProduct {
  Tensor in;  // [rows, K]; 16-byte aligned rows
  Weight weight;
  Tensor out;  // activation type or f32
  Epilogue epilogue = Epilogue::none;
};
using RowsProducts = std::span<const RowsProduct>;
constexpr int kMostProducts = 8;
bool suits_rows_product(Tensor in,
                        const Weight& weight);  // its layout; when it pays is linear_choice's business
// Independent products of equal row count in one launch.
void linear_rows(const Queue&, RowsProducts);
inline void linear_rows(const Queue& queue, std::initializer_list<RowsProduct> products) {
  linear_rows(queue, RowsProducts(products.begin(), products.size()));
}

// ---- linear_plain.cu: out = in @ weight^T for any shape, stride and alignment; slow
void linear_plain(const Queue&, Tensor in, const Weight& weight, Tensor out);

// ---- linear_tiles.cu: the same for more rows
struct TilePlan {
  int64_t tiles = 0;   // of outputs and rows, all products together
  int64_t slices = 1;  // of the inputs
  int64_t steps = 0;   // of a slice
  size_t partial_bytes = 0;
};
size_t tile_shared_bytes(int64_t rows);  // that a block needs; not every GPU has so much
TilePlan plan_tiles(RowsProducts, int multiprocessors);
// Products of equal row count and input width, outputs in the activation type and a multiple of 4 wide.
// partial: plan.partial_bytes; counters: zeroed once, [plan.tiles], zero again afterwards.
void linear_tiles(const Queue&, RowsProducts, const TilePlan&, float* partial, uint32_t* counters);

// ---- sm90/linear_panels.cu: products of any number of rows on GPUs of compute capability 9.0
struct PanelPlan {
  int64_t shape = 0;       // of the tiles; which one is linear_panels' business
  int64_t steps_each = 0;  // of a block; 0: whole tiles
  int64_t tiles = 0, blocks = 0;
  size_t partial_bytes = 0;
  int64_t filled = 0;  // percent of what all multiprocessors compute meanwhile that is asked for
};
PanelPlan plan_panels(RowsProducts, int multiprocessors);
// Products of equal row count, operands as suits_rows_product wants them, outputs in the activation type and
// a multiple of 4 wide. partial: plan.partial_bytes; counters, where steps_each is not 0: zeroed once,
// [plan.tiles], zero again afterwards.
void linear_panels(const Queue&, RowsProducts, const PanelPlan&, float* partial, uint32_t* counters);

// ---- sm90/linear_many.cu: a product of many rows, then relu²; operands as linear_panels wants, out % 8 == 0
void linear_many(const Queue&, const RowsProduct&, int multiprocessors);

// ---- low_rank7.cu
// Second half of the low-rank paths and everything that finish_project7 does; heads of 64.
struct LowRows7 {  // first halves, activations applied; [rows, R] each
  Tensor w, a, v, g;
};
void low_rank_finish7(const Queue&, const TimeMix7&, bool first_block, Tensor v_first, const LowRows7&,
                      const Projected7&);
// The same in linear_panels' way, for more rows.
void finish_panels7(const Queue&, const TimeMix7&, bool first_block, Tensor v_first, const LowRows7&,
                    const Projected7&, int multiprocessors);

// ---- low_rank6.cu: second halves of RWKV-6's low-rank paths, any number of rows
bool suits_low_rank6(Tensor low, const Weight& second);
// mixed[i] = z + (previous - z) * (mix row i + low part i @ mix_w2[i]^T); low [rows, 5 * Rm], tanh applied
void mix6(const Queue&, const TimeMix6&, Tensor z, Tensor previous, Tensor low,
          std::span<const Tensor, 5> mixed);
// u = bias + low @ second^T; tanh applied to low
void decay6(const Queue&, const LowRank& w, Tensor low, Tensor u, const Ahead& = {});

// ---- linear_value.cu: in @ weight^T for few rows with many zeros, weight stored transposed
struct ValuePlan {
  int64_t slice = 0;  // inputs per slice
  int64_t slices = 0;
  size_t partial_bytes = 0;
};
// Which inputs are skipped changes the order of the sums: no more rows than have no padding among them.
constexpr int64_t kMostValueRows = 8;
bool suits_value_product(int64_t rows, const Weight& weight);
ValuePlan plan_value_product(int64_t rows, int64_t in, int64_t out, int multiprocessors);
// partial: plan.partial_bytes; counters: zeroed once, [out / 128], zero again afterwards
void linear_value(const Queue&, const ValuePlan&, Tensor in, const Weight& weight, Tensor out, float* partial,
                  uint32_t* counters);

// ---- import.cu
// Whether this program was compiled for the current device.
bool has_code_here();
// Element (i, j) of [rows, cols] lies at i * row_stride + j * col_stride, on both sides; types f32, f16,
// bf16. *overflow becomes 1 where a finite number does not fit.
void import_matrix(const Queue&, const void* source, DType from, int64_t rows, int64_t cols,
                   int64_t row_stride, int64_t col_stride, void* target, DType to, int64_t target_row_stride,
                   int64_t target_col_stride, uint32_t* overflow);

}  // namespace fulmar::gpu
