// Products of two to eight rows in one launch, as one stream of weights (stream.h): a block for each
// multiprocessor, which has an equal share of all matrices.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "gpu/device/ptx.h"
#include "gpu/products/block_tiles.h"
#include "gpu/products/epilogue.h"
#include "gpu/products/rows.h"
#include "gpu/products/sm90/stream.h"
#include "gpu/products/sm90/stream_rows.h"

namespace fulmar::gpu {

namespace {

static_assert(kBlockTile == kStageRows);

template <class T>
struct StreamedProduct {
  Rows<const T> in;  // [R, K]
  const T* weight;   // [outs, K]
  void* out;
  int64_t out_stride;
  int outs, first_tile;
  bool wide;  // out is f32
  Epilogue epilogue;
};

template <class T>
struct StreamedProducts {
  int count, rows, k, tiles;
  StreamedProduct<T> each[kMostProducts];

  __device__ __forceinline__ const StreamedProduct<T>& of(int tile) const {
    int index = 0;
    while (index + 1 < count && tile >= each[index + 1].first_tile) index++;
    return each[index];
  }
};

template <class T>
__device__ void produce(const StreamedProducts<T>& products, const BlockTiles& own, Ring<StreamShape> ring) {
  const int lane = threadIdx.x % kWarp;
  for (int i = 0; i < own.count(); i++) {
    const StreamedProduct<T>& product = products.of(own.tile(i));
    const int out = (own.tile(i) - product.first_tile) * kBlockTile + own.begin(i) + lane;
    // Rows that the matrix has not repeat its last one; nobody takes what comes of them.
    const T* row = product.weight + static_cast<int64_t>(min(out, product.outs - 1)) * products.k;
    for (int at = 0; at < products.k; at += kStageWidth) {
      bring_stage(ring, own.outs(i), min(products.k - at, kStageWidth), row + at);
    }
  }
}

template <class T, int kMost>
__device__ void consume(const StreamedProducts<T>& products, const BlockTiles& own, Ring<StreamShape> ring,
                        StreamBarriers& barriers, float* parts) {
  StreamInputs<T, kMost> inputs;
  const T* loaded = nullptr;
  pdl_wait();
  for (int i = 0; i < own.count(); i++) {
    const StreamedProduct<T>& product = products.of(own.tile(i));
    if (product.in.data != loaded) {
      inputs.load(product.in, products.rows, products.k);
      loaded = product.in.data;
    }
    float sum[4] = {};
    multiply_tile<T, kMost>(ring, inputs, products.k, sum);
    leave_part(barriers, parts, i, sum);
  }
}

template <class T>
__device__ void reduce(const StreamedProducts<T>& products, const BlockTiles& own, StreamBarriers& barriers,
                       const float* parts) {
  const int of_tile = threadIdx.x % kWarp / 2, first_row = 4 * static_cast<int>(threadIdx.x % 2);
  pdl_wait();
  for (int i = 0; i < own.count(); i++) {
    const Float4 sum = reduce_parts(barriers, parts, i, products.k);
    const StreamedProduct<T>& product = products.of(own.tile(i));
    const int out = (own.tile(i) - product.first_tile) * kBlockTile + own.begin(i) + of_tile;
    if (of_tile >= own.outs(i) || out >= product.outs) continue;
#pragma unroll
    for (int e = 0; e < 4; e++) {
      if (first_row + e >= products.rows) break;
      const float x = finish(product.epilogue, sum.x[e]);
      const int64_t at = (first_row + e) * product.out_stride + out;
      if (product.wide) {
        static_cast<float*>(product.out)[at] = x;
      } else {
        static_cast<T*>(product.out)[at] = from_float<T>(x);
      }
    }
  }
}

template <class T, int kMost>
__global__ void __launch_bounds__(kStreamingThreads, 1)
    linear_stream_kernel(const __grid_constant__ StreamedProducts<T> products) {
  extern __shared__ __align__(16) unsigned char stages[];
  __shared__ StreamBarriers barriers;
  Ring<StreamShape> ring{stages, barriers.full, barriers.empty};
  auto* parts = reinterpret_cast<float*>(stages + StreamShape::kStages * StreamShape::kStageBytes);
  pdl_launch_next();
  if (threadIdx.x == 0) prepare_stream(ring, barriers);
  __syncthreads();
  const BlockTiles own(products.tiles);
  const int warp = threadIdx.x / kWarp;
  if (warp == kProducerWarp) return produce(products, own, ring);
  if (warp == kReducerWarp) return reduce(products, own, barriers, parts);
  consume<T, kMost>(products, own, ring, barriers, parts);
}

}  // namespace

bool suits_stream(Tensor in, const Weight& weight) {
  return suits_rows(in, weight) && in.rows <= kStreamColumns && weight.in % kConsumerWidth == 0 &&
         weight.in <= int64_t{kMostStreamStages} * kStageWidth;
}

void linear_stream(const Queue& queue, ProductList list, int multiprocessors) {
  const Tensor in = list.front().in;
  FULMAR_CHECK(list.size() <= kMostProducts);
  with_activation(in.dtype, [&](auto sample) {
    using T = decltype(sample);
    StreamedProducts<T> products{};
    products.rows = static_cast<int>(in.rows);
    products.k = static_cast<int>(in.cols);
    for (const Product& one : list) {
      FULMAR_CHECK(one.weight.in == in.cols && suits_stream(one.in, one.weight));
      products.each[products.count++] = {{one.in.as<const T>(), one.in.stride},
                                         static_cast<const T*>(one.weight.data),
                                         one.out.data,
                                         one.out.stride,
                                         static_cast<int>(one.weight.out),
                                         products.tiles,
                                         one.out.dtype == DType::f32,
                                         one.epilogue};
      products.tiles += static_cast<int>((one.weight.out + kBlockTile - 1) / kBlockTile);
    }
    const auto blocks = static_cast<unsigned>(std::min(multiprocessors, 2 * products.tiles));
    const auto start = [&](auto stages) {
      allow_shared(linear_stream_kernel<T, stages()>, kStreamBytes);
      launch(queue, linear_stream_kernel<T, stages()>, dim3(blocks), dim3(kStreamingThreads), kStreamBytes,
             products);
    };
    using std::integral_constant;
    if (products.k <= kStageWidth) return start(integral_constant<int, 1>{});
    if (products.k <= 2 * kStageWidth) return start(integral_constant<int, 2>{});
    start(integral_constant<int, kMostStreamStages>{});
  });
}

}  // namespace fulmar::gpu
