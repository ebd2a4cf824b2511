// Which way products are computed, as one table over formats, architecture, rows and shape. Pure: data and
// the function that looks it up. All numbers come from an H200 with RWKV-7 7.2B and RWKV-6 7B, 2026-11-21.
#pragma once

#include <cstdint>

#include "gpu/device/step_shape.h"
#include "gpu/products/product.h"

namespace fulmar::gpu {

enum class Way : uint8_t {
  value,          // rows of the weight that meet zeros are skipped (value.cu)
  row,            // a stream over the weights for one row (row.cu)
  rows,           // weights straight to fragments (rows.cu)
  packed_value,   // as value, from packed codes (packed_value.cu)
  packed_rows,    // as row and rows (packed_rows.cu)
  packed_tiles,   // as tiles (packed_tiles.cu)
  packed_panels,  // as panels (sm90/packed_panels.cu)
  dot_value,      // as value, by dot products (dot_value.cu)
  dot_rows,       // as row and rows, by dot products (dot_rows.cu)
  panels,         // TMA and wgmma in one launch (sm90/panels.cu)
  many,           // the same for whole prompts (sm90/many.cu)
  tiles,          // split-K over tiles in one launch (tiles.cu)
  float8_panels,  // panels of E4M3 by E4M3 (sm90/float8_panels.cu)
  float8,         // E4M3 by E4M3 by the GEMM library, inputs quantised together (sm90/float8_inputs.cu)
  plain,          // plain.cu, one product after the other; other formats are decoded first
  library,        // the same by the GEMM library, where there is one
};

// What a rule wants of the products' shape.
enum class ProductShape : uint8_t {
  any,
  relu_squared,  // a matrix with relu² behind it: the feed-forward's key
  low_rank,      // few outputs for its inputs
  narrow,        // few inputs, as small models have
  square,        // as many outputs as inputs and nothing behind them: the output matrix
};

constexpr int64_t kMostRows = 65536;  // of a step
constexpr int64_t kMostOwnRows = 8, kMostTileRows = 64, kMostAloneTileRows = 32, kMostPanelRows = 320;
constexpr int64_t kMostProjectionRows = 896, kMostNarrowProjectionRows = 1408, kMostNarrowInputs = 2048;
constexpr int64_t kMostPackedValueRows = 64, kMostPackedTileRows = 128, kMostPackedPanelRows = 1536,
                  kMostFloat8PanelRows = 1024;
// Two formats by panels at once: with more rows either fills the GPU by itself, and a share is too coarse.
constexpr int64_t kMostPairRows = 320;

// The first rule that applies and whose kernel suits the operands decides. Kernels take plain 16-bit weights
// only, which their suits_* ask for, but for the library and those of packed codes.
struct Rule {
  Way way;
  int least_products, most_products;  // of one launch
  ProductShape shape;
  int64_t least_rows, most_rows;
  int64_t least_filled = 0;  // percent of the multiprocessors that panels must fill
};
constexpr Rule kRules[] = {
    {Way::value, 1, 1, ProductShape::any, 1, kMostOwnRows},
    {Way::row, 1, kMostProducts, ProductShape::any, 1, 1},
    {Way::rows, 1, kMostProducts, ProductShape::any, 1, kMostOwnRows},
    // RWKV-7's six or seven first products; RWKV-6's five, which the library beats from 129 rows on with two
    // of them on side queues.
    {Way::panels, 6, kMostProducts, ProductShape::any, 9, kMostProjectionRows},
    {Way::panels, 6, kMostProducts, ProductShape::narrow, 9, kMostNarrowProjectionRows},
    {Way::panels, 5, 5, ProductShape::any, 9, 128},
    {Way::panels, 1, 1, ProductShape::relu_squared, 9, 128},
    {Way::panels, 1, 1, ProductShape::relu_squared, 129, 960, 80},
    {Way::many, 1, 1, ProductShape::relu_squared, 512, kMostRows},
    {Way::panels, 1, 1, ProductShape::square, 9, 32},
    // Where there are no panels. From 33 rows on a matrix that is alone fills the GPU by the library as well.
    {Way::tiles, 5, kMostProducts, ProductShape::any, 9, kMostTileRows},
    {Way::tiles, 1, 1, ProductShape::relu_squared, 9, kMostAloneTileRows},
    {Way::tiles, 1, 1, ProductShape::square, 9, kMostAloneTileRows},
    // From packed codes: by panels where there are some, else whatever the device.
    {Way::packed_panels, 1, kMostProducts, ProductShape::any, kMostOwnRows + 1, kMostPackedPanelRows},
    {Way::packed_value, 1, 1, ProductShape::any, 1, kMostPackedValueRows},
    {Way::packed_rows, 1, kMostProducts, ProductShape::any, 1, kMostOwnRows},
    {Way::packed_tiles, 1, kMostProducts, ProductShape::any, 1, kMostPackedTileRows},
    // E4M3 weights whose inputs become E4M3.
    {Way::float8_panels, 1, kMostProducts, ProductShape::any, 1, kMostFloat8PanelRows},
    {Way::float8, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    // Without matrix units.
    {Way::dot_value, 1, 1, ProductShape::any, 1, kMostOwnRows},
    {Way::dot_rows, 1, kMostProducts, ProductShape::any, 1, kMostOwnRows},
    // RWKV-7's low-rank products, where the others have another format.
    {Way::panels, 3, 4, ProductShape::low_rank, 9, kMostPanelRows},
    {Way::tiles, 3, 4, ProductShape::low_rank, 9, kMostTileRows},
    {Way::library, 1, kMostProducts, ProductShape::any, 1, kMostRows},
};

// In a fixed order of adding: the bits of a product's row depend on its input and weight alone. No rule may
// look at the number of rows, and no kernel divides a sum by it (fixed_order of the plans).
constexpr Rule kFixedRules[] = {
    {Way::panels, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    {Way::packed_panels, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    {Way::tiles, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    {Way::packed_tiles, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    {Way::plain, 1, kMostProducts, ProductShape::any, 1, kMostRows},
};

// Whether a way takes one product after the other.
constexpr bool one_by_one(Way way) { return way == Way::plain || way == Way::library; }

// Tiles of `many` want to be full.
constexpr int64_t kManyTileRows = 256;
constexpr bool many_rows_pay(int64_t rows) {
  const int64_t in_tiles = (rows + kManyTileRows - 1) / kManyTileRows * kManyTileRows;
  return rows * 16 > in_tiles * 15;
}

// What the choice knows of a device.
struct ProductDevice {
  int multiprocessors = 0;
  bool panels = false;        // compute capability 9.0, and not switched off
  bool matrix_units = false;  // without them dot products, the library or plain.cu
  bool fixed_order = false;   // products by kFixedRules
};

// The way of products that are computed together: in one launch, unless they are taken one by one.
Way choose_way(ProductList, const ProductDevice&);
// The way of a product beside others on a side queue, where kernels that share working memory may not run.
Way choose_side_way(const Product&);

}  // namespace fulmar::gpu
