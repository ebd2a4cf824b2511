// The beginning of each half block: residual add, norm, token shift and all mixes. One kernel where every
// sequence has one row; two where rows follow one another, since x is updated in place and a row needs the
// normalised row before it.
#include <type_traits>

#include "base/check.h"
#include "gpu/ahead.h"
#include "gpu/element.h"
#include "gpu/head_math.h"
#include "gpu/kernels.h"
#include "gpu/ptx.h"

namespace fulmar::gpu {

namespace {

constexpr int kVector = 4;
constexpr int kMostMixes = 6;
constexpr int64_t kMostWideRows = 132;  // of which each has a block as wide as the row

struct MixPointers {
  int count;
  const float* mix[kMostMixes];
  void* out[kMostMixes];
  int64_t stride;
};

template <class T>
__device__ void store_mixes(const MixPointers& mixes, int64_t row, int64_t c, const Float4& z,
                            const Float4& previous) {
#pragma unroll
  for (int m = 0; m < kMostMixes; m++) {
    if (m >= mixes.count) break;
    const Float4 share = mixes.mix[m] != nullptr ? load4(mixes.mix[m] + c) : Float4{{1.0f, 1.0f, 1.0f, 1.0f}};
    Float4 v;
#pragma unroll
    for (int i = 0; i < kVector; i++) v.x[i] = z.x[i] + (previous.x[i] - z.x[i]) * share.x[i];
    store4(static_cast<T*>(mixes.out[m]) + row * mixes.stride + c, v);
  }
}

// Rounded as it would be through memory, so that one row and many give the same bits.
template <class T>
__device__ Float4 rounded(const Float4& v) {
  Float4 out;
#pragma unroll
  for (int i = 0; i < kVector; i++) out.x[i] = to_float(from_float<T>(v.x[i]));
  return out;
}

template <int kVectors>
constexpr int kMostThreads = kVectors == 2 ? 512 : 1024;

struct EnterInputs {
  float* x;
  int64_t x_stride;
  const void* pending;  // or null
  int64_t pending_stride;
  const float *weight, *bias;
  int cols;
};

// A row spread over the block's threads, kVectors pieces each; piece i of a thread begins at at(i).
template <int kVectors>
struct Piece {
  int cols;
  __device__ int at(int i) const { return (i * static_cast<int>(blockDim.x) + threadIdx.x) * kVector; }
  __device__ bool has(int i) const { return at(i) < cols; }
  // How many numbers all lanes of a warp hold together.
  __device__ int of_warp(int warp) const {
    int count = 0;
#pragma unroll
    for (int i = 0; i < kVectors; i++) {
      const int begin = (i * static_cast<int>(blockDim.x) + warp * kWarp) * kVector;
      count += min(max(cols - begin, 0), kWarp * kVector);
    }
    return count;
  }
};

struct MeanAndScale {
  float mean, scale;
};

// Every warp finds mean and squared distances of its part, then all join the parts: one barrier, where the
// mean of the row first and the distances from it afterwards would take two, and none of the cancellation of
// a sum of squares.
template <int kVectors>
__device__ MeanAndScale moments(const Float4 (&v)[kVectors], const Piece<kVectors>& piece) {
  __shared__ float2 parts[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  float sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; i++) sum += piece.has(i) ? total(v[i]) : 0.0f;
  const float mean = warp_sum(sum) / static_cast<float>(max(piece.of_warp(warp), 1));
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
#pragma unroll
    for (const float e : v[i].x) squares += (e - mean) * (e - mean);
  }
  squares = warp_sum(squares);
  if (lane == 0) parts[warp] = make_float2(mean, squares);
  __syncthreads();
  const float2 part = lane < warps ? parts[lane] : float2{};
  const float count = lane < warps ? static_cast<float>(piece.of_warp(lane)) : 0.0f;
  const float all = static_cast<float>(piece.cols), row_mean = warp_sum(part.x * count) / all;
  const float away = part.x - row_mean;
  return {row_mean, rsqrtf(warp_sum(part.y + count * away * away) / all + kLayerNormEps)};
}

// v = x + pending, which is stored back.
template <class T, int kVectors>
__device__ void absorb(const EnterInputs& in, int64_t r, const Piece<kVectors>& piece,
                       Float4 (&v)[kVectors]) {
  float* x = in.x + r * in.x_stride;
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (piece.has(i)) v[i] = load4(x + piece.at(i));
  }
  if (in.pending == nullptr) return;
  const T* pending = static_cast<const T*>(in.pending) + r * in.pending_stride;
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
    const Float4 p = load4(pending + piece.at(i));
#pragma unroll
    for (int e = 0; e < kVector; e++) v[i].x[e] += p.x[e];
    store4(x + piece.at(i), v[i]);
  }
}

template <class T>
__device__ Float4 normalised(const Float4& v, const Float4& w, const Float4& b, const MeanAndScale& by) {
  Float4 z;
#pragma unroll
  for (int i = 0; i < kVector; i++) z.x[i] = (v.x[i] - by.mean) * by.scale * w.x[i] + b.x[i];
  return rounded<T>(z);
}

// Every row is the only one of its sequence. What does not depend on the kernel in front is fetched before
// that has finished.
template <class T, int kVectors>
__global__ void __launch_bounds__(kMostThreads<kVectors>)
    enter_single_kernel(Batch batch, EnterInputs in, Slots<float> carry,
                        const __grid_constant__ MixPointers mixes, Rows<T> z_out,
                        const __grid_constant__ Ahead ahead) {
  if (blockIdx.x >= batch.rows) {
    let_next_start();
    bring_ahead(ahead, blockIdx.x - static_cast<unsigned>(batch.rows), kAheadBlocks);
    return;
  }
  const int64_t r = blockIdx.x;
  const Piece<kVectors> piece{in.cols};
  float* carried = carry[batch.slot[r]];
  let_next_start();
  constexpr bool kEarly = kVectors == 1;  // registers for all of it
  Float4 v[kVectors], weight, bias, previous[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
    if (kEarly) weight = load4(in.weight + piece.at(i)), bias = load4(in.bias + piece.at(i));
    previous[i] = load4(carried + piece.at(i));
#pragma unroll
    for (int m = 0; m < kMostMixes; m++) {
      if (m < mixes.count && mixes.mix[m] != nullptr) prefetch(mixes.mix[m] + piece.at(i));
    }
  }
  wait_for_previous();
  absorb<T>(in, r, piece, v);
  const MeanAndScale by = moments(v, piece);
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
    if (!kEarly) weight = load4(in.weight + piece.at(i)), bias = load4(in.bias + piece.at(i));
    const Float4 z = normalised<T>(v[i], weight, bias, by);
    store4(carried + piece.at(i), z);
    if (z_out.data != nullptr) store4(z_out[r] + piece.at(i), z);
    store_mixes<T>(mixes, r, piece.at(i), z, rounded<T>(previous[i]));
  }
}

// First of two: z of every row; keeps what the first row of a sequence sees before the carried vector moves
// on.
template <class T, int kVectors>
__global__ void __launch_bounds__(kMostThreads<kVectors>)
    enter_norm_kernel(Batch batch, EnterInputs in, Slots<float> carry, Rows<T> z, float* first) {
  let_next_start();
  wait_for_previous();
  const int64_t r = blockIdx.x;
  const Piece<kVectors> piece{in.cols};
  Float4 v[kVectors];
  absorb<T>(in, r, piece, v);
  const MeanAndScale by = moments(v, piece);
  const int32_t sequence = batch.sequence_of[r];
  const bool keeps = r == batch.start[sequence];
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (!piece.has(i)) continue;
    const int c = piece.at(i);
    store4(z[r] + c, normalised<T>(v[i], load4(in.weight + c), load4(in.bias + c), by));
    if (keeps) store4(first + sequence * in.cols + c, load4(carry[batch.slot[sequence]] + c));
  }
}

template <class T>
__global__ void enter_mix_kernel(Batch batch, Slots<float> carry, const T* z, int64_t z_stride,
                                 const float* first, MixPointers mixes, int64_t cols) {
  let_next_start();
  wait_for_previous();
  const int64_t r = blockIdx.x;
  const int32_t sequence = batch.sequence_of[r];
  const bool is_first = r == batch.start[sequence], is_last = r + 1 == batch.start[sequence + 1];
  for (int64_t c = threadIdx.x * kVector; c < cols; c += blockDim.x * kVector) {
    const Float4 own = load4(z + r * z_stride + c);
    const Float4 previous =
        is_first ? rounded<T>(load4(first + sequence * cols + c)) : load4(z + (r - 1) * z_stride + c);
    if (is_last) store4(carry[batch.slot[sequence]] + c, own);
    store_mixes<T>(mixes, r, c, own, previous);
  }
}

// f(pieces per thread, threads) with a block for each row. Few rows: as many threads as there are, for the
// time that one row takes is that of the whole step; many: small blocks, of which several run at once.
template <class F>
void with_shape(int64_t rows, int64_t cols, F&& f) {
  const int64_t vectors = (cols + kVector - 1) / kVector;
  const auto with = [&](auto each) {
    const int64_t threads = (vectors + each() - 1) / each();
    FULMAR_CHECK(threads <= kMostThreads<each()>);
    f(each, dim3(static_cast<unsigned>((threads + kWarp - 1) / kWarp * kWarp)));
  };
  using std::integral_constant;
  if (rows <= kMostWideRows && vectors <= 1024) return with(integral_constant<int, 1>{});
  if (vectors <= 1024) return with(integral_constant<int, 2>{});
  if (vectors <= 4096) return with(integral_constant<int, 4>{});
  with(integral_constant<int, 8>{});
}

}  // namespace

void enter(const Queue& queue, const Batch& batch, const Norm& norm, Tensor x, Tensor pending,
           StateField carry, const Mixes& mixes, Tensor z, float* first, const Ahead& ahead) {
  MixPointers pointers{mixes.count, {}, {}, mixes.out[0].stride};
  for (int i = 0; i < mixes.count; i++) {
    FULMAR_CHECK(mixes.out[i].stride == pointers.stride);
    pointers.mix[i] = mixes.mix[i];
    pointers.out[i] = mixes.out[i].data;
  }
  const EnterInputs in{x.as<float>(),
                       x.stride,
                       pending.data,
                       pending.stride,
                       norm.weight.as<float>(),
                       norm.bias.as<float>(),
                       static_cast<int>(x.cols)};
  const dim3 grid(static_cast<unsigned>(batch.rows));
  const auto carried = slots_of<float>(carry);
  with_activation(mixes.out[0].dtype, [&](auto sample) {
    using T = decltype(sample);
    with_shape(batch.rows, x.cols, [&](auto each, dim3 block) {
      if (batch.decode_only()) {
        const dim3 with_ahead(grid.x + (ahead.bytes[0] > 0 ? kAheadBlocks : 0));
        launch(queue, enter_single_kernel<T, each()>, with_ahead, block, 0, batch, in, carried, pointers,
               rows_of<T>(z), ahead);
        return;
      }
      launch(queue, enter_norm_kernel<T, each()>, grid, block, 0, batch, in, carried, rows_of<T>(z), first);
      launch(queue, enter_mix_kernel<T>, grid, block, 0, batch, carried, z.as<T>(), z.stride, first, pointers,
             x.cols);
    });
  });
}

}  // namespace fulmar::gpu
