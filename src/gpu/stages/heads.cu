// Per-head work: key preparation, group norm, bonus, and the fused tails of project7 and leave7. One warp per
// row and head.
#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/ptx.h"
#include "gpu/math/finish7.h"
#include "gpu/math/head_math.h"
#include "gpu/stages/heads.h"

namespace fulmar::gpu {

namespace {

constexpr int kHeadsWarps = 4;  // per block

// Calls f(row, head) for each, with all lanes of a warp.
template <class F>
__global__ void heads_kernel(int64_t rows, int64_t n_head, F f) {
  pdl_launch_next();
  pdl_wait();
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kHeadsWarps + threadIdx.x / kWarp;
  if (item < rows * n_head) f(item / n_head, item % n_head);
}

template <class F>
void for_heads(const Queue& queue, int64_t rows, int64_t n_head, F f) {
  const int64_t blocks = (rows * n_head + kHeadsWarps - 1) / kHeadsWarps;
  launch(queue, heads_kernel<F>, dim3(static_cast<unsigned>(blocks)), dim3(kHeadsWarps * kWarp), 0, rows,
         n_head, f);
}

constexpr int kLaneChannels = 4;
constexpr int kWideThreads = 256;

// Calls f(row, channel) for heads of 64: four channels per lane, a row's lanes in one block.
template <class F>
__global__ void __launch_bounds__(kWideThreads) channels_kernel(int64_t rows, int64_t cols, F f) {
  pdl_launch_next();
  pdl_wait();
  const int64_t item = (static_cast<int64_t>(blockIdx.x) * kWideThreads + threadIdx.x) * kLaneChannels;
  // Half-warp sums need all lanes of a warp: those past the end repeat the last head and store nothing.
  const bool inside = item < rows * cols;
  const int64_t at = inside ? item : rows * cols - kHeadSize + threadIdx.x % 16 * kLaneChannels;
  f(at / cols, at % cols, inside);
}

template <class F>
void for_channels(const Queue& queue, int64_t rows, int64_t cols, F f) {
  constexpr int64_t kBlockChannels = kWideThreads * kLaneChannels;
  launch(queue, channels_kernel<F>,
         dim3(static_cast<unsigned>((rows * cols + kBlockChannels - 1) / kBlockChannels)), dim3(kWideThreads),
         0, rows, cols, f);
}

template <class T>
void key_prepare7_of(const Queue& queue, const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) {
  const auto keys = rows_of<T>(k), rates = rows_of<T>(alpha), to = rows_of<T>(kk);
  const auto* k_k = att.k_k.as<float>();
  const auto* k_a = att.k_a.as<float>();
  const int64_t n = k.cols / att.n_head;
  for_heads(queue, k.rows, att.n_head, [=] __device__(int64_t row, int64_t head) {
    const int64_t first = head * n;
    const int lane = threadIdx.x % kWarp;
    float squares = 0;
    for (int64_t c = first + lane; c < first + n; c += kWarp) {
      const float scaled = to_float(keys[row][c]) * k_k[c];
      squares += scaled * scaled;
    }
    const float scale = key_scale(warp_sum(squares));
    for (int64_t c = first + lane; c < first + n; c += kWarp) {
      const float key = to_float(keys[row][c]);
      to[row][c] = from_float<T>(key * k_k[c] * scale);
      keys[row][c] = from_float<T>(key * (1.0f + (to_float(rates[row][c]) - 1.0f) * k_a[c]));
    }
  });
}

template <class T>
void head_norm_of(const Queue& queue, int64_t n_head, const Norm& norm, Tensor y) {
  const auto at = rows_of<T>(y);
  const auto* weight = norm.weight.as<float>();
  const auto* bias = norm.bias.as<float>();
  const int64_t n = y.cols / n_head;
  for_heads(queue, y.rows, n_head, [=] __device__(int64_t row, int64_t head) {
    const int64_t first = head * n;
    const int lane = threadIdx.x % kWarp;
    float sum = 0, squares = 0;
    for (int64_t c = first + lane; c < first + n; c += kWarp) sum += to_float(at[row][c]);
    const float mean = warp_sum(sum) / static_cast<float>(n);
    for (int64_t c = first + lane; c < first + n; c += kWarp) {
      const float difference = to_float(at[row][c]) - mean;
      squares += difference * difference;
    }
    const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(n) + kHeadNormEps);
    for (int64_t c = first + lane; c < first + n; c += kWarp) {
      at[row][c] = from_float<T>((to_float(at[row][c]) - mean) * scale * weight[c] + bias[c]);
    }
  });
}

template <class T>
void bonus7_of(const Queue& queue, const TimeMix7& att, const Projected7& p, Tensor y) {
  const auto r = rows_of<T>(p.r), k = rows_of<T>(p.k), v = rows_of<T>(p.v), at = rows_of<T>(y);
  const auto* r_k = att.r_k.as<float>();
  const int64_t n = y.cols / att.n_head;
  for_heads(queue, y.rows, att.n_head, [=] __device__(int64_t row, int64_t head) {
    const int64_t first = head * n;
    const int lane = threadIdx.x % kWarp;
    float agreement = 0;
    for (int64_t c = first + lane; c < first + n; c += kWarp) {
      agreement += to_float(r[row][c]) * to_float(k[row][c]) * r_k[c];
    }
    agreement = warp_sum(agreement);
    for (int64_t c = first + lane; c < first + n; c += kWarp) {
      at[row][c] = from_float<T>(to_float(at[row][c]) + agreement * to_float(v[row][c]));
    }
  });
}

template <class T>
void leave_heads7_of(const Queue& queue, const TimeMix7& att, const Projected7& p, Tensor y) {
  const auto r = rows_of<T>(p.r), k = rows_of<T>(p.k), v = rows_of<T>(p.v), g = rows_of<T>(p.g),
             at = rows_of<T>(y);
  const LeaveWeights weights = leave_weights(att);
  for_channels(queue, y.rows, y.cols, [=] __device__(int64_t row, int64_t c, bool inside) {
    Float4 out = load4(at[row] + c);
    leave_heads(out, load4(r[row] + c), load4(k[row] + c), load4(v[row] + c), load4(g[row] + c), weights, c);
    if (inside) store4(at[row] + c, out);
  });
}

template <class T>
void leave_heads7_of(const Queue& queue, const TimeMix7& att, Tensor agreement, Tensor v_rows, Tensor g_rows,
                     Tensor y) {
  const auto v = rows_of<T>(v_rows), g = rows_of<T>(g_rows), at = rows_of<T>(y);
  const auto meet = rows_of<float>(agreement);
  const LeaveWeights weights = leave_weights(att);
  for_channels(queue, y.rows, y.cols, [=] __device__(int64_t row, int64_t c, bool inside) {
    Float4 out = load4(at[row] + c);
    leave_heads(out, meet[row][c / kHeadSize], load4(v[row] + c), load4(g[row] + c), weights, c);
    if (inside) store4(at[row] + c, out);
  });
}

template <class T>
void leave_heads6_of(const Queue& queue, const LeaveWeights& weights, Tensor g, Tensor y) {
  const auto gate = rows_of<T>(g), at = rows_of<T>(y);
  for_channels(queue, y.rows, y.cols, [=] __device__(int64_t row, int64_t c, bool inside) {
    Float4 out = load4(at[row] + c);
    const Float4 by = load4(gate[row] + c);
    normalise_heads(out, weights, c);
#pragma unroll
    for (int i = 0; i < kLaneChannels; i++) out.x[i] *= by.x[i];
    if (inside) store4(at[row] + c, out);
  });
}

template <class T>
void finish_project7_of(const Queue& queue, const TimeMix7& att, bool first_block, Tensor v_first,
                        Tensor share, const Projected7& p) {
  const auto k = rows_of<T>(p.k), v = rows_of<T>(p.v), u = rows_of<T>(p.u), kk = rows_of<T>(p.kk),
             alpha = rows_of<T>(p.alpha), first = rows_of<T>(v_first), part = rows_of<T>(share);
  const Finish7Vectors by = finish7_vectors(att);
  for_channels(queue, p.k.rows, p.k.cols, [=] __device__(int64_t row, int64_t c, bool inside) {
    Float4 key = load4(k[row] + c), rate = load4(alpha[row] + c), decay = load4(u[row] + c),
           value = load4(v[row] + c), unit;
    const Float4 decay_bias = load4(by.w0 + c), rate_bias = load4(by.a0 + c);
#pragma unroll
    for (int i = 0; i < kLaneChannels; i++) {
      decay.x[i] = decay_of(decay.x[i], decay_bias.x[i]);
      rate.x[i] = rate_of(rate.x[i], rate_bias.x[i]);
    }
    if (!first_block) {
      const Float4 towards = load4(first[row] + c), raw = load4(part[row] + c), bias = load4(by.v0 + c);
#pragma unroll
      for (int i = 0; i < kLaneChannels; i++) {
        value.x[i] = mixed_value(value.x[i], towards.x[i], value_share(raw.x[i], bias.x[i]));
      }
    }
    prepare_keys(key, unit, rate, by.k_k + c, by.k_a + c);
    if (!inside) return;
    store4(first_block ? first[row] + c : v[row] + c, value);
    store4(u[row] + c, decay);
    store4(alpha[row] + c, rate);
    store4(kk[row] + c, unit);
    store4(k[row] + c, key);
  });
}

}  // namespace

void key_prepare7(const Queue& queue, const TimeMix7& att, Tensor k, Tensor alpha, Tensor kk) {
  with_activation(k.dtype, [&](auto sample) { key_prepare7_of<decltype(sample)>(queue, att, k, alpha, kk); });
}

void head_norm(const Queue& queue, int64_t n_head, const Norm& norm, Tensor y) {
  with_activation(y.dtype, [&](auto sample) { head_norm_of<decltype(sample)>(queue, n_head, norm, y); });
}

void bonus7(const Queue& queue, const TimeMix7& att, const Projected7& p, Tensor y) {
  with_activation(y.dtype, [&](auto sample) { bonus7_of<decltype(sample)>(queue, att, p, y); });
}

void leave_heads7(const Queue& queue, const TimeMix7& att, const Projected7& p, Tensor y) {
  FULMAR_CHECK(y.cols == att.n_head * kHeadSize);
  with_activation(y.dtype, [&](auto sample) { leave_heads7_of<decltype(sample)>(queue, att, p, y); });
}

void leave_heads7(const Queue& queue, const TimeMix7& att, Tensor agreement, Tensor v, Tensor g, Tensor y) {
  FULMAR_CHECK(y.cols == att.n_head * kHeadSize);
  with_activation(y.dtype,
                  [&](auto sample) { leave_heads7_of<decltype(sample)>(queue, att, agreement, v, g, y); });
}

void leave_heads6(const Queue& queue, const TimeMix6& att, Tensor g, Tensor y) {
  FULMAR_CHECK(y.cols == att.n_head * kHeadSize);
  with_activation(y.dtype,
                  [&](auto sample) { leave_heads6_of<decltype(sample)>(queue, leave_weights(att), g, y); });
}

void finish_project7(const Queue& queue, const TimeMix7& att, bool first_block, Tensor v_first, Tensor share,
                     const Projected7& p) {
  FULMAR_CHECK(p.k.cols == att.n_head * kHeadSize);
  with_activation(p.k.dtype, [&](auto sample) {
    finish_project7_of<decltype(sample)>(queue, att, first_block, v_first, share, p);
  });
}

}  // namespace fulmar::gpu
