// A block's stream of packed tiles past a few rows of inputs: its warps take the pieces (K tiles of 128
// inputs) in rotation, so codes come from memory without a pause between tiles. The rows, or one row and its
// remainder, are columns of the matrix instruction and lie in shared memory.
#pragma once

#include "gpu/gemm/layout/packed_load.h"

namespace fulmar::gpu {

constexpr int kPackedVectors = kPackedInputs / 8;  // of 16 bytes, of a piece of one row

// Returns the bytes of shared memory that the inputs of `warps` warps take.
constexpr size_t packed_input_bytes(int64_t k, int64_t columns, int64_t warps) {
  const int64_t round = warps * kPackedInputs;
  return static_cast<size_t>((k + round - 1) / round * round * columns) * sizeof(uint16_t);
}

#ifdef FULMAR_DEVICE_CODE

// The pieces of this warp, one of kWarps.
template <int kWarps>
struct WarpPieces {
  int each;  // of this warp
  int most;  // the largest count of any warp

  __device__ explicit WarpPieces(int pieces)
      : each((pieces - warp() + kWarps - 1) / kWarps), most((pieces + kWarps - 1) / kWarps) {}
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  __device__ int at(int i) const { return warp() + i * kWarps; }
  // Returns where the warp's inputs lie in shared memory: [pieces][columns][vectors].
  __device__ uint4* own(uint4* shared, int columns) const {
    return shared + warp() * most * columns * kPackedVectors;
  }
};

// Copies the warp's inputs to shared memory. remainder: what rounding left of one row, for column 1; or null.
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
  int tile;  // number of the tile of 16 outputs in the matrix
};

// Multiplies the tiles first <= i < last one after the other; tile_of(i) returns the PackedTile i.
template <class T, CodeKind kKind, ScaleLayout kScales, int kWarps, class TileOf,
          CodeOrder kOrder = CodeOrder::fragments>
class PackedStream {
 public:
  static constexpr int kAhead = bits_of(kKind) == 8 ? 2 : 4;  // pieces in flight

  __device__ PackedStream(const TileOf& tile_of, const WarpPieces<kWarps>& pieces, int first, int last)
      : tile_of_(tile_of),
        pieces_(pieces),
        fetching_(first),
        last_(last),
        count_(tile_of(first).weight->pieces) {
    begin_tile();
  }

  // Loads the first pieces: constant data, which may be read before pdl_wait.
  __device__ __forceinline__ void start() {
#pragma unroll
    for (PackedPiece<kKind>& one : piece_) fetch(one);
  }

  // Multiplies `count` tiles from `begin` on, a multiple of kAhead in all calls but the last. inputs_of(i)
  // returns the place of the warp's inputs for tile i; store(i, sum) takes its accumulator, a Float4.
  template <class InputsOf, class Store>
  __device__ __forceinline__ void run(int begin, int count, int columns, const uint32_t* table,
                                      const InputsOf& inputs_of, const Store& store) {
    if (pieces_.each == 0) return;
    const int column = min(input_row<kOrder>(), columns - 1), stride = columns * kPackedVectors;
    const int end = begin + count;
    int tile = begin, left = pieces_.each;
    const uint4* x = inputs_of(tile) + column * kPackedVectors;
    TileSums sums;
    // Returns whether there are more pieces.
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
    // Not a loop over the round, which the compiler would not unroll.
    const auto round = [&]<int... kPlaces>(std::integer_sequence<int, kPlaces...>) {
      return (step(piece_[kPlaces]) && ...);
    };
    while (round(std::make_integer_sequence<int, kAhead>{})) {
    }
  }

 private:
  using Source =
      std::conditional_t<kOrder == CodeOrder::stored, StoredTileSource, TileSource<kKind, kScales>>;

  // A tile's accumulators: separate ones for even and odd operands, so that chains of dependent
  // instructions are half as long.
  struct TileSums {
    float even[4] = {}, odd[4] = {};
    float scaled[4] = {};  // the sums so far, where scales_sums

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
    // Returns the tile's sums and clears them.
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

  // Loads the warp's next piece; does nothing after the last.
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
  int next_, count_;     // pieces of the tile being loaded: the next one, and all
  Source source_;
  PackedPiece<kKind> piece_[kAhead];
};

#endif

}  // namespace fulmar::gpu
