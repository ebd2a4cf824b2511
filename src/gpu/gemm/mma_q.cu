// mma.sync tiles whose weights are packed codes: a warp has several pieces of its 16 outputs in flight, in
// memory order, and widens each once for all of the tile's rows.
#include "gpu/gemm/layout/packed_load.h"
#include "gpu/gemm/mma_kernel.h"
#include "gpu/gemm/mma_q.h"

namespace fulmar::gpu {

namespace {

template <class T, class Shape, CodeKind kKind>
class PackedTileWeights {
 public:
  static constexpr int kPieces = 1, kAhead = bits_of(kKind) == 8 ? 2 : 3;
  static_assert(kWarpInputs == kPackedInputs);
  using Matrix = PackedMatrix;
  using Piece = PackedPiece<kKind>;

  __device__ PackedTileWeights(const PackedMatrix& matrix, int first_out, const TileOperands<T>& a)
      : matrix_(matrix) {
    const int warp = threadIdx.x / kWarp;
    tile_ = min(first_out / kPackedOuts + warp % Shape::kOutWarps, (matrix.outs - 1) / kPackedOuts);
    k_warp_ = warp / Shape::kOutWarps;
    first_ = a.first / kPackedInputs + k_warp_;
    pieces_ = a.steps;
    if constexpr (kKind == CodeKind::levels) {
      fill_level_pairs(levels(), matrix.nf4);
      __syncthreads();
    }
  }
  __device__ __forceinline__ void fetch(Piece& to, int piece) const {
    const int at = first_ + piece * Shape::kKWarps;
    if (piece >= pieces_) return;
    if (at < matrix_.pieces) return TileSource<kKind>(matrix_, tile_).load(to, at);
    to = Piece{};  // the inputs are zero there, and so are scales
  }
  static __device__ __forceinline__ int tile_vector(int row, int vector) {
    return row * (Shape::kStep / 8) + packed_input(row, vector);
  }
  __device__ __forceinline__ void multiply(const Piece& v, int, const uint4* from,
                                           float (&sum)[Shape::kRowTiles][4]) const {
    widen_piece<T>(v, matrix_.layout, levels(), [&](int j, const uint32_t(&m)[4], const uint32_t(&n)[4]) {
      const int vector = k_warp_ * (kPackedInputs / 8) + matrix_vector(j);
#pragma unroll
      for (int t = 0; t < Shape::kRowTiles; t++) {
        const uint4 x = load_matrices(&from[tile_vector(t * 8 + matrix_row(), vector)]);
        mma<T>(sum[t], m[0], m[1], m[2], m[3], x.x, x.y);
        mma<T>(sum[t], n[0], n[1], n[2], n[3], x.z, x.w);
      }
    });
  }

 private:
  static __device__ __forceinline__ uint32_t (&levels())[kLevelPairs] {
    __shared__ uint32_t table[kLevelPairs];
    return table;
  }

  const PackedMatrix& matrix_;
  int tile_, k_warp_;
  int first_, pieces_;  // the warp's first piece of the row; number of stages
};

template <class F>
void with_packed_tile(int64_t rows, bool fixed_order, F&& f) {
  rows <= Tile32::kRows || fixed_order ? f(Tile32{}) : f(Tile64{});
}

}  // namespace

MmaPlan plan_mma_q(GemmList products, int multiprocessors, bool fixed_order) {
  MmaPlan plan;
  with_packed_tile(products.front().in.rows, fixed_order, [&](auto shape) {
    plan = plan_tiles_of<decltype(shape)>(products, multiprocessors, fixed_order);
  });
  return plan;
}

void launch_mma_q(const Queue& queue, GemmList products, const MmaPlan& plan, float* partial,
                  uint32_t* counters) {
  FULMAR_CHECK(products.size() <= kMostGemms);
  const Gemm& any = products.front();
  for (const Gemm& one : products) {
    FULMAR_CHECK(one.weight.dtype == any.weight.dtype && !one.weight.by_input());
  }
  FULMAR_CHECK(any.in.dtype == DType::f16);
  with_packed_tile(any.in.rows, plan.fixed_order, [&](auto shape) {
    using Shape = decltype(shape);
    with_code_kind(packed_kind(any.weight), [&](auto kind) {
      launch_tiles<Half, Shape, PackedTileWeights<Half, Shape, kind()>>(queue, products, plan, partial,
                                                                        counters, packed_matrix_of);
    });
  });
}

}  // namespace fulmar::gpu
