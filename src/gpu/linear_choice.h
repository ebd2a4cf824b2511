// Which way is taken for which shape: data only. All numbers come from an H200 with RWKV-7 7.2B, 2026-11-21.
#pragma once

#include <cstdint>

namespace fulmar::gpu {

// Sequences of at most this many rows go through the recurrence token by token, longer ones in chunks.
constexpr int64_t kMostRecurrentRows = 16;

// Products of at most this many rows read the weights with our own kernel; beyond it the library is quicker.
constexpr int64_t kMostOwnRows = 8;
// Half states of at least so many single rows go through a kernel that has several of them on their way. It
// wants nearly all shared memory of a multiprocessor, which the products of fewer rows leave to the cache:
// with these a step is longer by it, presumably for dividing that memory anew twice a layer.
constexpr int64_t kLeastHalfStates = kMostOwnRows + 1;
// Up to this many the large and the low-rank products go through one kernel of ours.
constexpr int64_t kMostTiledRows = 64;
// Up to this many on GPUs of compute capability 9.0, and matrices that are alone: the feed-forward's key and
// the square one of the output.
constexpr int64_t kMostPanelRows = 320, kMostPanelKeyRows = 128, kMostPanelOutputRows = 32;
// Both in RWKV-6, which has the gate's product of the feed-forward beside the key's.
constexpr int64_t kMostPanelRows6 = 128;
// The key of either, alone, for more rows up to so many: if panels fill so many percent of what the
// multiprocessors could compute.
constexpr int64_t kMostFilledKeyRows = 960, kLeastFilled = 80;
// The feed-forward's key for whole prompts: so many rows, most of them in full tiles.
constexpr int64_t kLeastManyRows = 512, kManyTileRows = 256;
constexpr bool many_rows_pay(int64_t rows) {
  const int64_t in_tiles = (rows + kManyTileRows - 1) / kManyTileRows * kManyTileRows;
  return rows >= kLeastManyRows && rows * 16 > in_tiles * 15;
}
// Slices of a tile's inputs: at most so many, each of at least so many inputs; what a block costs besides, in
// inputs.
constexpr int64_t kMostTileSlices = 16;
constexpr int64_t kLeastTileInputs = 256;
constexpr int64_t kTileOverheadInputs = 192;

// With one row, bytes of a matrix that are brought into the cache while a kernel of few blocks runs: of
// square ones and of the key matrix, each if the matrix is so many times as large. Smaller ones lose by it.
constexpr int64_t kAheadSquare = int64_t{4} << 20, kAheadSquare6 = int64_t{2} << 20;  // RWKV-6: of four
constexpr int64_t kAheadKey = int64_t{12} << 20;
constexpr int64_t kAheadShare = 8;

// Steps that are replayed from graphs: those with one row per sequence, up to this many.
constexpr int64_t kMostCapturedRows = 1024;

// Decode steps are padded to multiples of `grain` from `above` rows on, so that few graphs serve all sizes.
struct Padding {
  int64_t above;
  int64_t grain;
};
constexpr Padding kPaddings[] = {{256, 64}, {128, 32}, {32, 16}, {8, 4}, {0, 1}};

constexpr int64_t padded_rows(int64_t rows) {
  for (const Padding& padding : kPaddings) {
    if (rows > padding.above) return (rows + padding.grain - 1) / padding.grain * padding.grain;
  }
  return rows;
}

// Row counts that come again and again: those of padded decode steps and of full steps of prompts. For these
// the library's candidates are tried out, which takes as long as several steps.
constexpr int64_t kFullRows = 1024;
constexpr bool worth_timing(int64_t rows) {
  return rows < kFullRows ? rows % 4 == 0 && padded_rows(rows) == rows : rows % kFullRows == 0;
}

}  // namespace fulmar::gpu
