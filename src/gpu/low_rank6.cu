// RWKV-6's low-rank paths, second half: products with matrices [C, R] of few inputs, and what becomes of them
// on the spot: the data-dependent mixes of enter6, the decay of project6. One kernel for any number of rows.
#include "base/check.h"
#include "gpu/element.h"
#include "gpu/kernels.h"
#include "gpu/ptx.h"
#include "gpu/rows_product.h"

namespace fulmar::gpu {

namespace {

constexpr int kBlockOut = 64;                    // channels of a block
constexpr int kOutTiles = kBlockOut / kTileOut;  // one warp each
constexpr int kMixed = 5;                        // paths of enter6
constexpr int64_t kEnoughBlocks = 512;           // from here on a block does all paths of its rows

template <class T>
struct Paths {
  int rows, rank, count;
  Rows<const T> low;          // [rows, count * rank]
  const T* weight[kMixed];    // [C, rank]
  const float* base[kMixed];  // [C], added to the product
  T* out[kMixed];             // [rows, C]
  int64_t out_stride;
  Rows<const T> z, previous;  // of the mixes
};

// Along y of the grid: paths; along z: groups of kGroups * kTiles * 8 rows.
template <class T, int kTiles, int kGroups, bool kMixes>
__global__ void __launch_bounds__(kOutTiles* kGroups* kWarp)
    low_rank6_kernel(const __grid_constant__ Paths<T> paths) {
  constexpr int kStride = kBlockOut + 2;
  constexpr int kGroupRows = kTiles * kTileRows, kBlockRows = kGroups * kGroupRows;
  constexpr int kWarps = kOutTiles * kGroups, kRowsEach = kBlockRows / kWarps;
  __shared__ float product[kBlockRows * kStride];
  const int warp = threadIdx.x / kWarp, tile = warp % kOutTiles, group = warp / kOutTiles;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kBlockOut,
                c = channel + 2 * (threadIdx.x % kWarp);
  const int first = blockIdx.z * kBlockRows;
  const int own_first = min(first + group * kGroupRows, paths.rows - 1),
            own_rows = min(paths.rows - own_first, kGroupRows);
  let_next_start();
  Float2 z[kRowsEach], previous[kRowsEach];
  for (int path = blockIdx.y; path < paths.count; path += gridDim.y) {
    float sum[kTiles][4] = {};
    const T* weight = paths.weight[path] + (channel + tile * kTileOut) * paths.rank;
    const Rows<const T> low = {paths.low[own_first] + path * paths.rank, paths.low.stride};
    multiply_rows<T, kTiles, 1>(weight, kTileOut, low, own_rows, paths.rank, 0, sum);
    if (kMixes && path == blockIdx.y) {
#pragma unroll
      for (int i = 0; i < kRowsEach; i++) {
        const int row = min(first + warp + i * kWarps, paths.rows - 1);
        z[i] = load2(paths.z[row] + c);
        previous[i] = load2(paths.previous[row] + c);
      }
    }
    spread_rows<kTiles>(sum, product + group * kGroupRows * kStride + tile * kTileOut, kStride);
    __syncthreads();
    const Float2 base = load2(paths.base[path] + c);
#pragma unroll
    for (int i = 0; i < kRowsEach; i++) {
      const int row = warp + i * kWarps;
      if (first + row >= paths.rows) break;
      Float2 v = load2(product + row * kStride + c - channel);
#pragma unroll
      for (int e = 0; e < 2; e++) {
        v.x[e] += base.x[e];
        if (kMixes) v.x[e] = z[i].x[e] + (previous[i].x[e] - z[i].x[e]) * v.x[e];
      }
      store2(paths.out[path] + (first + row) * paths.out_stride + c, v.x[0], v.x[1]);
    }
    __syncthreads();
  }
}

template <bool kMixes, class T>
void launch_paths(const Queue& queue, const Paths<T>& paths, int64_t cols) {
  const auto with = [&](auto tiles, auto groups) {
    constexpr int kRows = groups() * tiles() * kTileRows;
    const int64_t across = cols / kBlockOut, down = (paths.rows + kRows - 1) / kRows;
    const dim3 grid(static_cast<unsigned>(across),
                    static_cast<unsigned>(across * down < kEnoughBlocks ? paths.count : 1),
                    static_cast<unsigned>(down));
    launch(queue, low_rank6_kernel<T, tiles(), groups(), kMixes>, grid, dim3(kOutTiles * groups() * kWarp), 0,
           paths);
  };
  using std::integral_constant;
  if (paths.rows <= kTileRows) return with(integral_constant<int, 1>{}, integral_constant<int, 1>{});
  if (paths.rows <= 4 * kTileRows) return with(integral_constant<int, 4>{}, integral_constant<int, 1>{});
  with(integral_constant<int, 4>{}, integral_constant<int, 2>{});
}

}  // namespace

bool suits_low_rank6(Tensor low, const Weight& second) {
  return suits_rows_product(low, second) && second.out % kBlockOut == 0;
}

void mix6(const Queue& queue, const TimeMix6& att, Tensor z, Tensor previous, Tensor low,
          std::span<const Tensor, 5> mixed) {
  with_activation(z.dtype, [&](auto sample) {
    using T = decltype(sample);
    Paths<T> paths{};
    paths.rows = static_cast<int>(z.rows);
    paths.rank = static_cast<int>(att.mix_w2[0].in);
    paths.count = kMixed;
    paths.low = {low.as<const T>(), low.stride};
    paths.out_stride = mixed[0].stride;
    for (int i = 0; i < kMixed; i++) {
      const Tensor out = mixed[static_cast<size_t>(i)];
      FULMAR_CHECK(out.stride == paths.out_stride);
      paths.weight[i] = static_cast<const T*>(att.mix_w2[i].data);
      paths.base[i] = att.mix.row<float>(i);
      paths.out[i] = out.as<T>();
    }
    paths.z = {z.as<const T>(), z.stride};
    paths.previous = {previous.as<const T>(), previous.stride};
    launch_paths<true>(queue, paths, z.cols);
  });
}

void decay6(const Queue& queue, const LowRank& w, Tensor low, Tensor u) {
  with_activation(u.dtype, [&](auto sample) {
    using T = decltype(sample);
    Paths<T> paths{};
    paths.rows = static_cast<int>(u.rows);
    paths.rank = static_cast<int>(w.second.in);
    paths.count = 1;
    paths.low = {low.as<const T>(), low.stride};
    paths.out_stride = u.stride;
    paths.weight[0] = static_cast<const T*>(w.second.data);
    paths.base[0] = w.bias.as<float>();
    paths.out[0] = u.as<T>();
    launch_paths<false>(queue, paths, u.cols);
  });
}

}  // namespace fulmar::gpu
