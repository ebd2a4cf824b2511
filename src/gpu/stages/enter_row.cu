// The pre-mix of each half block at batch 1. A block computes the mixes of some channels; it computes the
// moments from the whole row itself, which is faster than waiting for another block.
#include "base/check.h"
#include "gpu/device/pair.h"
#include "gpu/device/prefetch.h"
#include "gpu/device/ptx.h"
#include "gpu/math/moments.h"
#include "gpu/stages/lone_row.h"

namespace fulmar::gpu {

namespace {

constexpr int kEnterRowVector = 4;
constexpr int kSliceVectors = 64;  // per block
constexpr int kSlice = kSliceVectors * kEnterRowVector;
constexpr int kLeastThreads = kSliceVectors * kMostRowMixes;
constexpr int kEnterRowThreads = 1024;

template <class T>
struct EnterRowArguments {
  const float *x, *weight, *bias;  // [C]
  int cols, count;
  unsigned slices;
  const float* mix[kMostRowMixes];
  PairPointers<T> out[kMostRowMixes];
};

// One mix of four channels, and the part of it that does not depend on the previous kernel.
struct OwnMix {
  int channel;
  bool any;
  Float4 weight, bias, previous, share;
};

template <class T>
__device__ OwnMix share_of(const EnterRowArguments<T>& a, const float* carried) {
  const int mix = threadIdx.x / kSliceVectors;
  OwnMix own{static_cast<int>(blockIdx.x) * kSlice +
             static_cast<int>(threadIdx.x) % kSliceVectors * kEnterRowVector};
  own.any = mix < a.count && own.channel < a.cols;
  if (!own.any) return own;
  own.weight = load4(a.weight + own.channel), own.bias = load4(a.bias + own.channel);
  if (carried != nullptr) own.previous = load4(carried + own.channel);
  if (a.mix[mix] != nullptr) own.share = load4(a.mix[mix] + own.channel);
  return own;
}

template <class T, int kVectors>
__global__ void __launch_bounds__(kEnterRowThreads)
    enter_row_kernel(Batch batch, const __grid_constant__ EnterRowArguments<T> a, Slots<float> carry,
                     const __grid_constant__ Prefetch ahead) {
  if (blockIdx.x >= a.slices) {
    pdl_launch_next();
    prefetch_part(ahead, blockIdx.x - a.slices, kPrefetchBlocks);
    return;
  }
  __shared__ float2 parts[kWarp];
  float* carried = carry.base != nullptr ? carry[batch.slot[0]] : nullptr;
  pdl_launch_next();
  const OwnMix own = share_of(a, carried);
  const RowPiece<kVectors> piece{a.cols};
  pdl_wait();
  Float4 v[kVectors], x{};
#pragma unroll
  for (int i = 0; i < kVectors; i++) {
    if (piece.has(i)) v[i] = load4(a.x + piece.at(i));
  }
  if (own.any) x = load4(a.x + own.channel);
  const MeanAndScale by = moments(v, piece, parts);
  if (!own.any) return;
  Float4 z, mixed;
#pragma unroll
  for (int i = 0; i < kEnterRowVector; i++) {
    z.x[i] = (x.x[i] - by.mean) * by.scale * own.weight.x[i] + own.bias.x[i];
    mixed.x[i] = z.x[i] + (own.previous.x[i] - z.x[i]) * own.share.x[i];
  }
  const int mix = threadIdx.x / kSliceVectors;
  // Safe: all threads of the block have read the carried vector before the barrier in moments.
  if (mix == 0 && carried != nullptr) store4(carried + own.channel, z);
  store4(a.out[mix], own.channel, mixed);
}

// Calls f(pieces per thread, threads) for rows of this length.
template <class F>
void with_enter_row_block(int64_t cols, F&& f) {
  const int64_t vectors = (cols + kEnterRowVector - 1) / kEnterRowVector;
  const auto with = [&](auto each) {
    const int64_t threads = std::max<int64_t>((vectors + each() - 1) / each(), kLeastThreads);
    FULMAR_CHECK(threads <= kEnterRowThreads);
    f(each, dim3(static_cast<unsigned>((threads + kWarp - 1) / kWarp * kWarp)));
  };
  using std::integral_constant;
  if (vectors <= kEnterRowThreads) return with(integral_constant<int, 1>{});
  if (vectors <= 4 * kEnterRowThreads) return with(integral_constant<int, 4>{});
  with(integral_constant<int, 16>{});
}

}  // namespace

void enter_row(const Queue& queue, const Batch& batch, const Norm& norm, Tensor x, StateField carry,
               std::span<const RowMix> mixes, const Prefetch& ahead) {
  FULMAR_CHECK(x.rows == 1 && mixes.size() <= kMostRowMixes);
  with_activation(mixes.front().out.high.dtype, [&](auto sample) {
    using T = decltype(sample);
    EnterRowArguments<T> a{x.as<float>(), norm.weight.as<float>(), norm.bias.as<float>(),
                           static_cast<int>(x.cols)};
    for (const RowMix& one : mixes) {
      a.mix[a.count] = one.mix;
      a.out[a.count++] = {one.out.high.as<T>(), one.out.remainder.as<T>()};
    }
    a.slices = static_cast<unsigned>((x.cols + kSlice - 1) / kSlice);
    const dim3 grid(a.slices + (ahead.bytes[0] > 0 ? kPrefetchBlocks : 0));
    with_enter_row_block(x.cols, [&](auto each, dim3 block) {
      launch(queue, enter_row_kernel<T, each()>, grid, block, 0, batch, a, slots_of<float>(carry), ahead);
    });
  });
}

}  // namespace fulmar::gpu
