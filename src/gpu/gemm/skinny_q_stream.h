// A block's stream of packed tiles past few rows of inputs: its warps take the pieces of 128 inputs in
// rotation, so that codes come from memory without a pause between tiles. The rows, or a lone row and what is
// left of it, are columns of the matrix instruction and lie in shared memory.
#pragma once

#include "gpu/gemm/layout/packed_load.h"

namespace fulmar::gpu {

constexpr int kPackedVectors = kPackedInputs / 8;  // of 16 bytes, of a piece of one row

// Bytes of shared memory that the inputs take for so many warps.
constexpr size_t packed_input_bytes(int64_t k, int64_t columns, int64_t warps) {
  const int64_t round = warps * kPackedInputs;
  return static_cast<size_t>((k + round - 1) / round * round * columns) * sizeof(uint16_t);
}

#ifdef FULMAR_DEVICE_CODE

// The pieces of a warp, one of kWarps.
template <int kWarps>
struct WarpPieces {
  int each;  // of this warp
  int most;  // of any

  __device__ explicit WarpPieces(int pieces)
      : each((pieces - warp() + kWarps - 1) / kWarps), most((pieces + kWarps - 1) / kWarps) {}
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  __device__ int at(int i) const { return warp() + i * kWarps; }
  // Its inputs in shared memory: [pieces][columns][vectors].
  __device__ uint4* own(uint4* shared, int columns) const {
    return shared + warp() * most * columns * kPackedVectors;
  }
};

// remainder: what rounding left of a lone row, as column 1; or null.
template <class T, int kWarps>
__device__ __forceinline__ void copy_warp_inputs(const Rows<const T>& in, const T* remainder, int columns,
                                                 const WarpPieces<kWarps>& pieces, uint4* own) {
  __syncwarp();
  for (int i = threadIdx.x % kWarp; i < pieces.each * columns * kPackedVectors; i += kWarp) {
    const int vector = i % kPackedVectors, column = i / kPackedVectors % columns,
              piece = i / kPackedVectors / columns;
    const T* row = column > 0 && remainder != nullptr ? remainder : in[column];
    own[i - vector + packed_input(column, vector)] =
        reinterpret_cast<const uint4*>(row)[pieces.at(piece) * kPackedVectors + vector];
  }
  __syncwarp();
}

struct PackedTile {
  const PackedMatrix* weight;
  int tile;  // of 16 outputs, of the matrix
};

// tile_of(i) gives the PackedTile of the tiles first <= i < last.
template <class T, CodeKind kKind, ScaleLayout kScales, int kWarps, class TileOf,
          CodeOrder kOrder = CodeOrder::fragments>
class PackedStream {
 public:
  static constexpr int kAhead = bits_of(kKind) == 8 ? 2 : 4;  // pieces on their way

  __device__ PackedStream(const TileOf& tile_of, const WarpPieces<kWarps>& pieces, int first, int last)
      : tile_of_(tile_of),
        pieces_(pieces),
        fetching_(first),
        last_(last),
        count_(tile_of(first).weight->pieces) {
    begin_tile();
  }

  // Sends for the first pieces: constant data, which may precede pdl_wait.
  __device__ __forceinline__ void start() {
#pragma unroll
    for (PackedPiece<kKind>& one : piece_) fetch(one);
  }

  // The next `count` tiles, from `begin` on: inputs_of(i) is where the warp's inputs for tile i lie, and
  // store(i, sum) takes its accumulator, a Float4. All tiles but the last call's come in multiples of kAhead.
  template <class InputsOf, class Store>
  __device__ __forceinline__ void run(int begin, int count, int columns, const uint32_t* table,
                                      const InputsOf& inputs_of, const Store& store) {
    if (pieces_.each == 0) return;
    const int column = min(input_row<kOrder>(), columns - 1), stride = columns * kPackedVectors;
    const int end = begin + count;
    int tile = begin, left = pieces_.each;
    const uint4* x = inputs_of(tile) + column * kPackedVectors;
    TileSums sums;
    // Whether there are more.
    const auto step = [&](PackedPiece<kKind>& piece) {
      sums.add(piece, table, x, column);
      fetch(piece);
      x += stride;
      if (--left > 0) return true;
      store(tile, sums.take());
      if (++tile == end) return false;
      left = pieces_.each;
      x = inputs_of(tile) + column * kPackedVectors;
      return true;
    };
    // Not a loop over the round, which would not be unrolled.
    const auto round = [&]<int... kPlaces>(std::integer_sequence<int, kPlaces...>) {
      return (step(piece_[kPlaces]) && ...);
    };
    while (round(std::make_integer_sequence<int, kAhead>{})) {
    }
  }

 private:
  using Source =
      std::conditional_t<kOrder == CodeOrder::stored, StoredTileSource, TileSource<kKind, kScales>>;

  // A tile's accumulators. Products of even and of odd operands have their own, so that half as many wait for
  // one another.
  struct TileSums {
    float even[4] = {}, odd[4] = {};
    float scaled[4] = {};  // where scales_sums

    __device__ __forceinline__ void add(const PackedPiece<kKind>& piece, const uint32_t* table,
                                        const uint4* x, int column) {
      widen_piece<T, kScales>(piece, kScales, table,
                              [&](int j, const uint32_t(&m)[4], const uint32_t(&n)[4]) {
                                const uint4 v = lane_inputs<kOrder>(x, column, j);
                                mma<T>(even, m[0], m[1], m[2], m[3], v.x, v.y);
                                mma<T>(odd, n[0], n[1], n[2], n[3], v.z, v.w);
                              });
      if constexpr (scales_sums(kScales)) {
        const float by[2] = {sum_scale(piece, 0), sum_scale(piece, 1)};
#pragma unroll
        for (int i = 0; i < 4; i++) {
          scaled[i] += by[i / 2] * (even[i] + odd[i]);
          even[i] = odd[i] = 0;
        }
      }
    }
    // Leaves zeros.
    __device__ __forceinline__ Float4 take() {
      Float4 sum;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        sum.x[i] = scales_sums(kScales) ? scaled[i] : even[i] + odd[i];
        scaled[i] = even[i] = odd[i] = 0;
      }
      return sum;
    }
  };

  // The warp's next piece; nothing where all have been sent for.
  __device__ __forceinline__ void fetch(PackedPiece<kKind>& to) {
    if (next_ >= count_) return;
    source_.load(to, next_);
    next_ += kWarps;
    if (next_ < count_ || ++fetching_ >= last_) return;
    begin_tile();
  }
  __device__ __forceinline__ void begin_tile() {
    const PackedTile of = tile_of_(fetching_);
    source_ = Source(*of.weight, of.tile);
    next_ = pieces_.warp();
  }

  const TileOf& tile_of_;
  WarpPieces<kWarps> pieces_;
  int fetching_, last_;  // tiles
  int next_, count_;     // pieces of the one
  Source source_;
  PackedPiece<kKind> piece_[kAhead];
};

#endif

}  // namespace fulmar::gpu
