// The products of one launch as a kernel takes them: their tiles are numbered
// consecutively, one product after the other.
#pragma once

#include "base/check.h"
#include "gpu/gemm/gemm.h"

namespace fulmar::gpu {

// `Product` has `int first_tile`, the number of its first tile.
template <class Product>
struct Grouped {
  int count, tiles;  // products, and tiles of all of them
  Product each[kMostGemms];

  // Returns the index of the product that tile `tile` belongs to.
  __device__ __forceinline__ int index_at(int tile) const {
    int index = 0;
    while (index + 1 < count && tile >= each[index + 1].first_tile) index++;
    return index;
  }
  // Returns the product that tile `tile` belongs to.
  __device__ __forceinline__ const Product& at(int tile) const { return each[index_at(tile)]; }

  // Appends a product of `own` tiles and sets its first_tile.
  void add(const Product& product, int64_t own) {
    FULMAR_CHECK(count < kMostGemms);
    each[count] = product;
    each[count++].first_tile = tiles;
    tiles += static_cast<int>(own);
  }
};

}  // namespace fulmar::gpu
