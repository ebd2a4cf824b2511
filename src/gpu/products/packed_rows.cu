// Products of few rows from packed codes. A block takes tiles of 16 outputs that follow one another; its
// warps take the pieces of 128 inputs in rotation, so that codes come from memory in one stream without a
// pause between tiles, and add up what they have found after every few tiles. The rows, or a lone row and
// what is left of it, are columns of the matrix instruction and lie in shared memory.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/pair.h"
#include "gpu/products/epilogue.h"
#include "gpu/products/packed_load.h"
#include "gpu/products/packed_rows.h"

namespace fulmar::gpu {

namespace {

constexpr int kPackedWarps = 8, kPackedThreads = kPackedWarps * kWarp;
constexpr int kAccumulatorColumns = 8;  // of an accumulator
constexpr int kTilesAtOnce = 4;         // between two sums over the warps
constexpr int kInputVectors = kPackedInputs / 8;
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
struct PackedProducts {
  int count, rows, columns, tiles, pieces;
  float remainder_factor;
  PackedProduct<T> each[kMostProducts];
};

template <class T>
__device__ __forceinline__ const PackedProduct<T>& packed_product_of(const PackedProducts<T>& a, int tile) {
  int index = 0;
  while (index + 1 < a.count && tile >= a.each[index + 1].first_tile) index++;
  return a.each[index];
}

template <class T>
__device__ __forceinline__ void store_finished(const PackedProduct<T>& product, int row, int out, float x) {
  x = finish(product.epilogue, x);
  const int64_t at = row * product.out_stride + out;
  if (product.adds) {
    // Nobody else writes it: a way to add without waiting for what is there.
    atomicAdd(product.wide + at, x);
  } else if (product.wide != nullptr) {
    product.wide[at] = x;
  } else if (product.out.remainder != nullptr) {
    store(product.out, at, x);
  } else {
    product.out.high[at] = from_float<T>(x);
  }
}

// The warp's own pieces of the inputs: [pieces][columns][vectors].
template <class T>
__device__ __forceinline__ void copy_warp_inputs(const PackedProducts<T>& a, const PackedProduct<T>& product,
                                                 int each, uint4* own) {
  const int warp = threadIdx.x / kWarp, columns = a.columns;
  __syncwarp();
  for (int i = threadIdx.x % kWarp; i < each * columns * kInputVectors; i += kWarp) {
    const int vector = i % kInputVectors, column = i / kInputVectors % columns,
              piece = i / kInputVectors / columns;
    const T* row = column > 0 && product.remainder != nullptr ? product.remainder : product.in[column];
    const int at = (piece * kPackedWarps + warp) * kInputVectors + vector;
    own[i - vector + packed_input(column, vector)] = reinterpret_cast<const uint4*>(row)[at];
  }
  __syncwarp();
}

// Where the lane's inputs of group j lie: those of its codes, which in the order of files are neighbours.
template <bool kStored>
__device__ __forceinline__ uint4 lane_inputs(const uint4* row, int column, int j) {
  if constexpr (kStored) return row[packed_input(column, stored_vector(j))];
  return load_matrices(row + packed_input(column, matrix_vector(j)));
}

// kStored: codes in the order of files.
template <class T, CodeKind kKind, bool kStored>
__global__ void __launch_bounds__(kPackedThreads, 2)
    linear_packed_rows_kernel(const __grid_constant__ PackedProducts<T> a) {
  constexpr int kAhead = bits_of(kKind) == 8 ? 2 : 4;  // pieces on their way
  static_assert(kTilesAtOnce % kAhead == 0, "a place for each piece of a round");
  __shared__ float part[kPackedWarps][kTilesAtOnce][kPackedOuts * kAccumulatorColumns];
  __shared__ uint32_t table[kLevelPairs];
  extern __shared__ uint4 shared[];
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4, warp = threadIdx.x / kWarp;
  const int64_t blocks = gridDim.x, block = blockIdx.x;
  const int first = static_cast<int>(block * a.tiles / blocks),
            last = static_cast<int>((block + 1) * a.tiles / blocks);
  const int each = (a.pieces - warp + kPackedWarps - 1) / kPackedWarps,
            most = (a.pieces + kPackedWarps - 1) / kPackedWarps;
  pdl_launch_next();
  if constexpr (kKind == CodeKind::levels) fill_level_pairs(table, a.each[0].weight.nf4);

  PackedPiece<kKind> w[kAhead];
  int fetching = first, fetched = 0;
  const PackedProduct<T>* from = &packed_product_of(a, first);
  const auto fetch = [&](PackedPiece<kKind>& to) {
    if (fetching >= last || each == 0) return;
    const int tile = fetching - from->first_tile, piece = warp + fetched * kPackedWarps;
    if constexpr (kStored) {
      load_stored_piece(to, from->weight, tile, piece);
    } else {
      load_piece(to, from->weight, tile, piece);
    }
    if (++fetched < each) return;
    fetched = 0;
    if (++fetching < last) from = &packed_product_of(a, fetching);
  };
#pragma unroll
  for (int i = 0; i < kAhead; i++) fetch(w[i]);
  pdl_wait();
  if constexpr (kKind == CodeKind::levels) __syncthreads();

  uint4* own = shared + warp * most * a.columns * kInputVectors;
  const int column = min(kStored ? g : matrix_row(), a.columns - 1);
  const PackedProduct<T>* product = from;
  const T* loaded = nullptr;
  for (int begin = first; begin < last; begin += kTilesAtOnce) {
    const int tiles = min(last - begin, kTilesAtOnce), total = tiles * each;
    float sum[4] = {};
    int piece = 0, tile = 0;
    for (int base = 0; base < total; base += kAhead) {
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ahead++) {
        if (base + ahead >= total) break;
        if (piece == 0) {
          product = &packed_product_of(a, begin + tile);
          if (product->in.data != loaded) {
            loaded = product->in.data;
            copy_warp_inputs(a, *product, each, own);
          }
        }
        const uint4* x = own + (piece * a.columns + column) * kInputVectors;
        widen_piece<T>(w[ahead], product->weight, table,
                       [&](int j, const uint32_t(&m)[4], const uint32_t(&n)[4]) {
                         const uint4 v = lane_inputs<kStored>(x, column, j);
                         mma<T>(sum, m[0], m[1], m[2], m[3], v.x, v.y);
                         mma<T>(sum, n[0], n[1], n[2], n[3], v.z, v.w);
                       });
        fetch(w[ahead]);
        if (++piece < each) continue;
        piece = 0;
        float* to = part[warp][tile++];
        store2(to + g * kAccumulatorColumns + 2 * q, sum[0], sum[1]);
        store2(to + (g + 8) * kAccumulatorColumns + 2 * q, sum[2], sum[3]);
        sum[0] = sum[1] = sum[2] = sum[3] = 0;
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < tiles * kPackedOuts * a.rows; i += kPackedThreads) {
      const int of_tile = i % kPackedOuts, row = i / kPackedOuts % a.rows, t = i / kPackedOuts / a.rows;
      const PackedProduct<T>& of = packed_product_of(a, begin + t);
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
}

int packed_tiles_of(const Weight& weight) {
  return static_cast<int>((weight.out + kPackedOuts - 1) / kPackedOuts);
}

size_t input_bytes(int64_t k, int64_t columns) {
  const int64_t round = int64_t{kPackedWarps} * kPackedInputs;
  return static_cast<size_t>((k + round - 1) / round * round * columns) * sizeof(uint16_t);
}

template <class T>
PackedProducts<T> packed_products_of(std::span<const RowProduct> list) {
  PackedProducts<T> products{};
  const RowProduct& any = list.front();
  const bool pairs = !any.in.remainder.empty();
  products.rows = static_cast<int>(any.in.high.rows);
  products.columns = pairs ? 2 : products.rows;
  products.pieces = static_cast<int>(any.weight.in / kPackedInputs);
  products.remainder_factor = pairs ? 1.0f / kRemainderScale<T> : 0.0f;
  for (const RowProduct& one : list) {
    const bool wide = one.out.high.dtype == DType::f32;
    FULMAR_CHECK(one.weight.in == any.weight.in && one.weight.dtype == any.weight.dtype);
    FULMAR_CHECK(suits_packed_rows(one.weight, products.columns) && !one.in.high.empty());
    FULMAR_CHECK((wide || !one.adds) && pairs == !one.in.remainder.empty() &&
                 one.in.high.rows == products.rows && (!pairs || products.rows == 1));
    products.each[products.count++] = {
        {one.in.high.as<const T>(), one.in.high.stride},
        one.in.remainder.as<const T>(),
        packed_matrix_of(one.weight),
        wide ? one.out.high.as<float>() : nullptr,
        {wide ? nullptr : one.out.high.as<T>(), wide ? nullptr : one.out.remainder.as<T>()},
        one.out.high.stride,
        products.tiles,
        one.adds,
        one.epilogue};
    products.tiles += packed_tiles_of(one.weight);
  }
  return products;
}

}  // namespace

bool suits_packed_rows(const Weight& weight, int64_t rows) {
  const bool codes = is_packed(weight) || (is_float8_rows(weight) && weight.in % kPackedInputs == 0);
  return codes && !weight.transposed && rows <= kMostPackedRows &&
         input_bytes(weight.in, std::max<int64_t>(rows, 2)) <= kMostInputBytes;
}

void linear_packed_rows(const Queue& queue, std::span<const RowProduct> list, int multiprocessors) {
  FULMAR_CHECK(list.size() <= kMostProducts);
  with_activation(list.front().in.high.dtype, [&](auto sample) {
    using T = decltype(sample);
    const PackedProducts<T> products = packed_products_of<T>(list);
    const dim3 grid(static_cast<unsigned>(std::min(products.tiles, 2 * multiprocessors)));
    const Weight& any = list.front().weight;
    const auto start = [&](auto kernel) {
      allow_shared(kernel, kMostInputBytes);
      launch(queue, kernel, grid, dim3(kPackedThreads), input_bytes(any.in, products.columns), products);
    };
    if (is_float8_rows(any)) return start(linear_packed_rows_kernel<T, CodeKind::float8, true>);
    with_code_kind(packed_kind(any), [&](auto kind) { start(linear_packed_rows_kernel<T, kind(), false>); });
  });
}

}  // namespace fulmar::gpu
