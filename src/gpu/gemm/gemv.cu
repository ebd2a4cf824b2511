// GEMV: as many blocks as run at once stream equal shares of all matrices, each a
// contiguous range of memory. Tiles left over after equal shares of whole tiles are split
// in two, to balance the last wave.
#include <algorithm>

#include "base/check.h"
#include "gpu/gemm/epilogue.h"
#include "gpu/gemm/gemv.h"
#include "gpu/gemm/gemv_norm.h"
#include "gpu/gemm/grouped.h"

namespace fulmar::gpu {

namespace {

constexpr int kMostOutTiles = 17;  // of a block

template <class T>
struct StreamedMatrix {
  const T *in, *remainder;  // [K], or
  const float* mix;         // [K]
  const T* weight;          // [outs, K]
  float* wide;              // [outs] f32, or
  PairPointers<T> out;
  int outs;
  int first_tile;
  bool adds;
  Epilogue epilogue;
};

template <class T>
struct StreamedMatrices : Grouped<StreamedMatrix<T>> {
  int k;
  LaunchPlace place;
  float remainder_factor;
};

// A block's tiles: `whole` consecutive ones, and perhaps another one or half of one.
struct BlockTiles {
  int whole, last, half;  // last: a tile or -1; half: 0 or 1 of it, or -1 for both
  __device__ explicit BlockTiles(int tiles) {
    const int block = blockIdx.x, blocks = gridDim.x;
    whole = tiles / blocks;
    const int rest = tiles % blocks;
    const bool halves = 2 * rest <= blocks;
    half = halves ? block % 2 : -1;
    last = whole * blocks + (halves ? block / 2 : block);
    if (last >= tiles) last = -1;
  }
  __device__ int count() const { return whole + (last >= 0 ? 1 : 0); }
  __device__ int tile(int i) const { return i < whole ? static_cast<int>(blockIdx.x) * whole + i : last; }
  __device__ bool is_half(int i) const { return i == whole && half >= 0; }
  // Returns the first output, within the tile, of the block's part of tile i.
  __device__ int begin(int i) const { return is_half(i) ? half * kTileHalf : 0; }
};

template <class T>
__device__ void put(const StreamedMatrix<T>& product, int out, float x) {
  x = finish(product.epilogue, x);
  if (product.adds) {
    // No other thread writes here: the atomic adds without waiting for a load.
    atomicAdd(product.wide + out, x);
  } else if (product.wide != nullptr) {
    product.wide[out] = x;
  } else if (product.out.remainder != nullptr) {
    store(product.out, out, x);
  } else {
    product.out.high[out] = from_float<T>(x);
  }
}

int tiles_of(const Weight& weight) { return static_cast<int>((weight.out + kStreamTile - 1) / kStreamTile); }

template <class T, bool kMade>
__global__ void __launch_bounds__(kStreamThreads, 2)
    gemv_kernel(const __grid_constant__ StreamedMatrices<T> products, const __grid_constant__ Norming norm) {
  __shared__ float part[kStreamWarps][kMostOutTiles * kStreamTile];
  extern __shared__ uint4 shared[];
  const BlockTiles own(products.tiles);
  pdl_begin(products.place);
  const auto product_of_tile = [&](int i) -> const StreamedMatrix<T>& { return products.at(own.tile(i)); };
  // Rows beyond a matrix repeat its last one; their results are not used.
  const auto tile_of = [&](int i) -> StreamTile<T> {
    const StreamedMatrix<T>& product = product_of_tile(i);
    const int first = (own.tile(i) - product.first_tile) * kStreamTile + own.begin(i);
    const auto row = [&](int out) {
      return product.weight + static_cast<int64_t>(min(out, product.outs - 1)) * products.k;
    };
    const int low = first + stream_row_of_lane();
    return {row(low), own.is_half(i) ? nullptr : row(low + kTileHalf)};
  };
  const auto stream = [&](auto& from) {
    stream_row<T>(tile_of, from, own.count(), products.k, products.remainder_factor, part, products.place);
  };
  if constexpr (kMade) {
    // All of the block's tiles but the last belong to the product of its first.
    const StreamedMatrix<T>&one = product_of_tile(0), &other = product_of_tile(max(own.count() - 1, 0));
    const NormedRow row = norm.here();
    const float* const mix[2] = {one.mix, other.mix};
    MadeInputs<T, 2> made(row, mix, shared, own.count() - 1);
    stream(made);
  } else {
    const auto source = [&](int i) -> PairSource<T> {
      return {product_of_tile(i).in, product_of_tile(i).remainder};
    };
    StoredInputs<T, decltype(source)> stored(source, shared);
    stream(stored);
  }
  __syncthreads();
  for (int at = threadIdx.x; at < own.count() * kStreamTile; at += kStreamThreads) {
    const int i = at / kStreamTile, of_tile = at % kStreamTile;
    if (own.is_half(i) && of_tile >= kTileHalf) continue;
    const StreamedMatrix<T>& product = products.at(own.tile(i));
    const int out = (own.tile(i) - product.first_tile) * kStreamTile + own.begin(i) + of_tile;
    if (out < product.outs) put(product, out, stream_sum(part, at, products.k));
  }
  pdl_end(products.place);
}

}  // namespace

bool suits_gemv(const Weight& weight) {
  return weight.plain16() && !weight.by_input() && weight.in % kStreamPiece == 0 &&
         stream_shared_bytes(weight.in) <= kMostStreamShared &&
         reinterpret_cast<uintptr_t>(weight.data) % 16 == 0;
}

namespace {

template <class T>
StreamedMatrices<T> products_of(std::span<const Gemv> list, bool made) {
  StreamedMatrices<T> products{};
  products.k = static_cast<int>(list.front().weight.in);
  const bool pairs = made || !list.front().in.remainder.empty();
  products.remainder_factor = pairs ? 1.0f / kRemainderScale<T> : 0.0f;
  for (const Gemv& one : list) {
    FULMAR_CHECK(one.weight.in == products.k && suits_gemv(one.weight));
    const bool wide = one.out.high.dtype == DType::f32;
    FULMAR_CHECK((wide || !one.adds) && (made || pairs == !one.in.remainder.empty()));
    products.add({one.in.high.as<const T>(),
                  one.in.remainder.as<const T>(),
                  one.mix,
                  static_cast<const T*>(one.weight.data),
                  wide ? one.out.high.as<float>() : nullptr,
                  {wide ? nullptr : one.out.high.as<T>(), wide ? nullptr : one.out.remainder.as<T>()},
                  static_cast<int>(one.weight.out),
                  0,
                  one.adds,
                  one.epilogue},
                 tiles_of(one.weight));
  }
  return products;
}

int64_t blocks_for(int64_t tiles, int64_t room) {
  const int64_t most = kMostOutTiles - 1;
  return std::max(std::min(room, 2 * tiles), (tiles + most - 1) / most);
}

}  // namespace

bool suits_made_inputs(std::span<const Gemv> list, int64_t blocks) {
  int64_t tiles = 0;
  for (const Gemv& one : list) tiles += tiles_of(one.weight);
  // Limits a block to one tile and a last one.
  return list.front().weight.in <= kMostMadeCols && tiles < 2 * blocks_for(tiles, blocks);
}

void launch_gemv(const Queue& queue, std::span<const Gemv> list, const LaunchShare& share,
                 const RowNorm& norm) {
  const bool made = norm.norm != nullptr;
  FULMAR_CHECK(!made || suits_made_inputs(list, share.blocks));
  with_activation(activation_of(list.front().weight), [&](auto sample) {
    using T = decltype(sample);
    StreamedMatrices<T> products = products_of<T>(list, made);
    products.place = share.place;
    const dim3 grid(static_cast<unsigned>(blocks_for(products.tiles, share.blocks)));
    const auto start = [&](auto kernel, size_t shared, const Norming& norming) {
      allow_shared(kernel, kMostStreamShared);
      launch(queue, kernel, grid, dim3(kStreamThreads), shared, products, norming);
    };
    if (made) return start(gemv_kernel<T, true>, stream_shared_bytes(products.k, 2), norming_of(norm));
    start(gemv_kernel<T, false>, stream_shared_bytes(products.k), {});
  });
}

}  // namespace fulmar::gpu
