// Blocked matrix products for many rows, for prefill and wide batches. Knows nothing of threads.
//
// The input is packed once: tiles of rows transposed so that the rows lie in vector lanes. A block of weights
// is then widened to f32 in cache and multiplied with every tile, one broadcast weight at a time, so weights
// need no rearrangement and are read from memory once per block of rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

constexpr int64_t kPanelDepth = 256;   // terms summed before they are added to the output
constexpr int64_t kPanelOutputs = 48;  // most outputs of one block; a multiple of every register tile
constexpr int64_t kPanelRows = 192;    // most rows of one block; a multiple of every row tile

// out[r][o] = sum over k of weight[o][k] * in[r][k].
struct BlockedProduct {
  DType dtype = DType::f32;
  const std::byte* weight = nullptr;  // [out, depth] row-major, any alignment
  const float* scales = nullptr;      // of formats with scales beside their codes, as in Weight
  int64_t group = 0;
  int64_t depth = 0;
  int64_t rows = 0;
  const float* in = nullptr;  // [rows, depth]
  int64_t in_stride = 0;
  float* packed = nullptr;  // panel_row_count(rows) * depth floats, 64-byte aligned
  float* out = nullptr;     // [rows, out]
  int64_t out_stride = 0;
  // For linear_amx.h alone: an input's number of parts, and whether weights are transposed.
  int parts = 0;
  bool transposed = false;
};

// A rectangle of the output: rows [row, row_end) and outputs [output, output_end). `row` is a multiple of
// panel_row_tile(), and the sizes are at most kPanelRows and kPanelOutputs.
struct PanelBlock {
  int64_t row = 0;
  int64_t row_end = 0;
  int64_t output = 0;
  int64_t output_end = 0;
};

// Returns the rows of a full tile on this processor.
int64_t panel_row_tile();

// Returns `rows` rounded up to whole vectors.
int64_t panel_row_count(int64_t rows);

// Packs terms [first, last) of the tile that begins at row `row`.
void pack_panel(const BlockedProduct& product, int64_t row, int64_t first, int64_t last);

// Computes one block from packed input. Order of summation, the same for every row and block: k ascending
// within each kPanelDepth terms, these partial sums in turn.
void multiply_panel(const BlockedProduct& product, const PanelBlock& block);

}  // namespace fulmar
