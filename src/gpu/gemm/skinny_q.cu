// Skinny GEMM from packed codes. A block takes consecutive tiles of 16 outputs in
// one stream (skinny_q_stream.h); its warps, which divide the inputs, add up
// their sums after every few tiles.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/equal_share.h"
#include "gpu/device/pair.h"
#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/grouped.h"
#include "gpu/gemm/skinny_q.h"
#include "gpu/gemm/skinny_q_stream.h"

namespace fulmar::gpu {

namespace {

constexpr int kPackedWarps = 8, kPackedThreads = kPackedWarps * kWarp;
constexpr int kAccumulatorColumns = 8;  // of an accumulator
constexpr int kTilesAtOnce = 4;         // between two sums over the warps
constexpr size_t kMostInputBytes = size_t{64} << 10;

template <class T>
struct PackedProduct {
  Rows<const T> in;    // [rows, K]
  const T* remainder;  // [K] of a lone row, or null
  PackedMatrix weight;
  float* wide;  // f32 [rows, outs], or
  PairPointers<T> out;
  int64_t out_stride;
  int first_tile;
  bool adds;
  Epilogue epilogue;
};

template <class T>
struct PackedProducts : Grouped<PackedProduct<T>> {
  int rows, columns, pieces;
  LaunchPlace place;
  float remainder_factor;
};

template <class T>
__device__ __forceinline__ void store_finished(const PackedProduct<T>& product, int row, int out, float x) {
  x = finish(product.epilogue, x);
  const int64_t at = row * product.out_stride + out;
  if (product.adds) {
    // No other thread writes here: the atomic adds without waiting for a load.
    atomicAdd(product.wide + at, x);
  } else if (product.wide != nullptr) {
    product.wide[at] = x;
  } else if (product.out.remainder != nullptr) {
    store(product.out, at, x);
  } else {
    product.out.high[at] = from_float<T>(x);
  }
}

template <class T, CodeKind kKind, ScaleLayout kScales, CodeOrder kOrder>
__global__ void __launch_bounds__(kPackedThreads, 2)
    skinny_q_kernel(const __grid_constant__ PackedProducts<T> a) {
  __shared__ float part[kPackedWarps][kTilesAtOnce][kPackedOuts * kAccumulatorColumns];
  __shared__ uint32_t table[kLevelPairs];
  extern __shared__ uint4 shared[];
  const int g = fragment_group(), q = fragment_place(), warp = threadIdx.x / kWarp;
  const EqualShare own(a.tiles);
  const int last = own.first + own.count;
  const WarpPieces<kPackedWarps> pieces(a.pieces);
  pdl_begin(a.place);
  if constexpr (kKind == CodeKind::levels) fill_level_pairs(table, a.each[0].weight.nf4);
  const auto tile_of = [&](int tile) -> PackedTile {
    const PackedProduct<T>& of = a.at(tile);
    return {&of.weight, tile - of.first_tile};
  };
  PackedStream<T, kKind, kScales, kPackedWarps, decltype(tile_of), kOrder> stream(tile_of, pieces, own.first,
                                                                                  last);
  static_assert(kTilesAtOnce % stream.kAhead == 0, "a place for each piece of a round");
  stream.start();
  pdl_wait_for_inputs(a.place);
  if constexpr (kKind == CodeKind::levels) __syncthreads();

  uint4* inputs = pieces.own(shared, a.columns);
  const T* loaded = nullptr;
  const auto inputs_of = [&](int tile) -> const uint4* {
    const PackedProduct<T>& of = a.at(tile);
    if (of.in.data != loaded) {
      loaded = of.in.data;
      copy_warp_inputs(of.in, of.remainder, a.columns, pieces, inputs);
    }
    return inputs;
  };
  for (int begin = own.first; begin < last; begin += kTilesAtOnce) {
    const int tiles = min(last - begin, kTilesAtOnce);
    stream.run(begin, tiles, a.columns, table, inputs_of, [&](int tile, const Float4& sum) {
      float* to = part[warp][tile - begin] + g * kAccumulatorColumns + 2 * q;
      store2(to, sum.x[0], sum.x[1]);
      store2(to + 8 * kAccumulatorColumns, sum.x[2], sum.x[3]);
    });
    __syncthreads();
    for (int i = threadIdx.x; i < tiles * kPackedOuts * a.rows; i += kPackedThreads) {
      const int of_tile = i % kPackedOuts, row = i / kPackedOuts % a.rows, t = i / kPackedOuts / a.rows;
      const PackedProduct<T>& of = a.at(begin + t);
      const int out = (begin + t - of.first_tile) * kPackedOuts + of_tile;
      if (out >= of.weight.outs) continue;
      float high = 0, low = 0;
#pragma unroll
      for (int from_warp = 0; from_warp < kPackedWarps; from_warp++) {
        if (from_warp >= a.pieces) break;
        const float* one = part[from_warp][t] + of_tile * kAccumulatorColumns + row;
        high += one[0];
        if (a.remainder_factor != 0) low += one[1];
      }
      store_finished(of, row, out, high + low * a.remainder_factor);
    }
    __syncthreads();
  }
  pdl_end(a.place);
}

int packed_tiles_of(const Weight& weight) {
  return static_cast<int>((weight.out + kPackedOuts - 1) / kPackedOuts);
}

size_t input_bytes(int64_t k, int64_t columns) { return packed_input_bytes(k, columns, kPackedWarps); }

template <class T>
PackedProducts<T> packed_products_of(std::span<const Gemv> list) {
  PackedProducts<T> products{};
  const Gemv& any = list.front();
  const bool pairs = !any.in.remainder.empty();
  products.rows = static_cast<int>(any.in.high.rows);
  products.columns = pairs ? 2 : products.rows;
  products.pieces = static_cast<int>(any.weight.in / kPackedInputs);
  products.remainder_factor = pairs ? 1.0f / kRemainderScale<T> : 0.0f;
  for (const Gemv& one : list) {
    const bool wide = one.out.high.dtype == DType::f32;
    FULMAR_CHECK(one.weight.in == any.weight.in && one.weight.dtype == any.weight.dtype &&
                 packed_scales(one.weight) == packed_scales(any.weight));
    FULMAR_CHECK(suits_skinny_q(one.weight, products.columns) && !one.in.high.empty());
    FULMAR_CHECK((wide || !one.adds) && pairs == !one.in.remainder.empty() &&
                 one.in.high.rows == products.rows && (!pairs || products.rows == 1));
    products.add({{one.in.high.as<const T>(), one.in.high.stride},
                  one.in.remainder.as<const T>(),
                  packed_matrix_of(one.weight),
                  wide ? one.out.high.as<float>() : nullptr,
                  {wide ? nullptr : one.out.high.as<T>(), wide ? nullptr : one.out.remainder.as<T>()},
                  one.out.high.stride,
                  0,
                  one.adds,
                  one.epilogue},
                 packed_tiles_of(one.weight));
  }
  return products;
}

}  // namespace

bool suits_skinny_q(const Weight& weight, int64_t rows) {
  const bool codes = is_packed(weight) || (is_float8_rows(weight) && weight.in % kPackedInputs == 0);
  return codes && !weight.by_input() && rows <= kMostSkinnyQRows &&
         input_bytes(weight.in, std::max<int64_t>(rows, 2)) <= kMostInputBytes;
}

void launch_skinny_q(const Queue& queue, std::span<const Gemv> list, const LaunchShare& share) {
  FULMAR_CHECK(list.size() <= kMostGemms);
  with_activation(list.front().in.high.dtype, [&](auto sample) {
    using T = decltype(sample);
    PackedProducts<T> products = packed_products_of<T>(list);
    products.place = share.place;
    const dim3 grid(static_cast<unsigned>(std::min<int64_t>(products.tiles, share.blocks)));
    const Weight& any = list.front().weight;
    const auto start = [&](auto kernel) {
      allow_shared(kernel, kMostInputBytes);
      launch(queue, kernel, grid, dim3(kPackedThreads), input_bytes(any.in, products.columns), products);
    };
    if (is_float8_rows(any)) {
      constexpr auto kScales = ScaleLayout::piece;
      return start(skinny_q_kernel<T, CodeKind::float8, kScales, CodeOrder::stored>);
    }
    with_code_kind(packed_kind(any), packed_scales(any), [&](auto kind, auto scales) {
      start(skinny_q_kernel<T, kind(), scales(), CodeOrder::fragments>);
    });
  });
}

}  // namespace fulmar::gpu
