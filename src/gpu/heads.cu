// What happens within heads: key preparation, group norm, bonus, and the fused ends of project7 and leave7.
// One warp per row and head.
#include "base/check.h"
#include "gpu/element.h"
#include "gpu/head_math.h"
#include "gpu/kernels.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

namespace {

constexpr int kWarps = 4;  // per block

// f(row, head) for each of them, with all lanes of a warp.
template <class F>
__global__ void heads_kernel(int64_t rows, int64_t n_head, F f) {
  let_next_start();
  wait_for_previous();
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (item < rows * n_head) f(item / n_head, item % n_head);
}

template <class F>
void for_heads(const Queue& queue, int64_t rows, int64_t n_head, F f) {
  const int64_t blocks = (rows * n_head + kWarps - 1) / kWarps;
  launch(queue, heads_kernel<F>, dim3(static_cast<unsigned>(blocks)), dim3(kWarps * kWarp), 0, rows, n_head, f);
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
  for_heads(queue, y.rows, att.n_head, [=] __device__(int64_t row, int64_t head) {
    const int64_t c = head * kHeadSize + 2 * (threadIdx.x % kWarp);
    const Float2 out = leave_head(load2(at[row] + c), load2(r[row] + c), load2(k[row] + c),
                                  load2(v[row] + c), load2(g[row] + c), weights, c);
    store2(at[row] + c, out.x[0], out.x[1]);
  });
}

template <class T>
void finish_project7_of(const Queue& queue, const TimeMix7& att, bool first_block, Tensor v_first, Tensor share,
                        const Projected7& p) {
  const auto k = rows_of<T>(p.k), v = rows_of<T>(p.v), u = rows_of<T>(p.u), kk = rows_of<T>(p.kk),
             alpha = rows_of<T>(p.alpha), first = rows_of<T>(v_first), part = rows_of<T>(share);
  const auto *w0 = att.w.bias.as<float>(), *a0 = att.a.bias.as<float>(), *v0 = att.v.bias.as<float>();
  const auto *k_k = att.k_k.as<float>(), *k_a = att.k_a.as<float>();
  for_heads(queue, p.k.rows, att.n_head, [=] __device__(int64_t row, int64_t head) {
    const int64_t c = head * kHeadSize + 2 * (threadIdx.x % kWarp);
    const Float2 key = load2(k[row] + c), raw_alpha = load2(alpha[row] + c), raw_u = load2(u[row] + c);
    Float2 value = load2(v[row] + c);
    if (first_block) {
      store2(first[row] + c, value.x[0], value.x[1]);
    } else {
      const Float2 towards = load2(first[row] + c), raw = load2(part[row] + c);
#pragma unroll
      for (int i = 0; i < 2; i++) value.x[i] += (towards.x[i] - value.x[i]) * sigmoid(raw.x[i] + v0[c + i]);
      store2(v[row] + c, value.x[0], value.x[1]);
    }
    store2(u[row] + c, raw_u.x[0] + w0[c], raw_u.x[1] + w0[c + 1]);
    const Float2 rate = {{sigmoid(raw_alpha.x[0] + a0[c]), sigmoid(raw_alpha.x[1] + a0[c + 1])}};
    store2(alpha[row] + c, rate.x[0], rate.x[1]);
    const PreparedKey prepared = prepare_key(key, rate, k_k + c, k_a + c);
    store2(kk[row] + c, prepared.kk.x[0], prepared.kk.x[1]);
    store2(k[row] + c, prepared.k.x[0], prepared.k.x[1]);
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

void finish_project7(const Queue& queue, const TimeMix7& att, bool first_block, Tensor v_first, Tensor share,
                     const Projected7& p) {
  FULMAR_CHECK(p.k.cols == att.n_head * kHeadSize);
  with_activation(p.k.dtype, [&](auto sample) {
    finish_project7_of<decltype(sample)>(queue, att, first_block, v_first, share, p);
  });
}

}  // namespace fulmar::gpu
