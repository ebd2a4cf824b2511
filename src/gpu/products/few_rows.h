// What kernels of few rows share on the host: products as they take them, and their shares of the GPU.
#pragma once

#include <span>

#include "gpu/device/launch_place.h"
#include "gpu/products/few_rows_pair.h"
#include "gpu/products/kernel.h"
#include "gpu/products/packed.h"
#include "gpu/products/row.h"

namespace fulmar::gpu {

// Returns what such a kernel takes where nothing runs beside it: two blocks a multiprocessor.
inline LaunchShare whole_gpu(const ProductDevice& device) { return {2 * device.multiprocessors}; }

// Returns the products in the form of a lone row's, which lie in `rows`.
inline std::span<const RowProduct> row_products(ProductList products, RowProduct (&rows)[kMostProducts]) {
  size_t count = 0;
  for (const Product& one : products) {
    rows[count++] = {{one.in, {}}, one.weight, {one.out, {}}, one.epilogue};
  }
  return {rows, count};
}

// Returns what kernels of few rows stream of products: their tiles have equally many outputs.
template <class List>
TileStream tile_stream(const List& products) {
  int64_t bytes = 0, tiles = 0;
  for (const auto& one : products) {
    bytes += static_cast<int64_t>(one.weight.bytes());
    tiles += (one.weight.out + kPackedOuts - 1) / kPackedOuts;
  }
  return {tiles, bytes / tiles};
}

}  // namespace fulmar::gpu
