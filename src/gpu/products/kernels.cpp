#include "gpu/products/kernels.h"

#include <span>

#include "gpu/products/operands.h"
#include "gpu/products/sm90/panels.h"

namespace fulmar::gpu {

namespace {

// All limits were measured on H200 cards with RWKV-7 7.2B and RWKV-6 7B.
constexpr int64_t kMostTileRows = 64, kMostAloneTileRows = 32, kMostPanelRows = 320;
constexpr int64_t kMostProjectionRows = 896, kMostNarrowProjectionRows = 1408, kMostNarrowInputs = 2048;
constexpr int64_t kMostPackedValueRows = 64, kMostPackedTileRows = 128, kMostPackedPanelRows = 1536;

// What a rule asks of the products' shape.
enum class ProductShape : uint8_t {
  any,
  relu_squared,  // a matrix with relu² behind it: the feed-forward's key
  low_rank,      // few outputs for its inputs
  narrow,        // few inputs, as small models have
  square,        // as many outputs as inputs and nothing behind them: the output matrix
};

// The first rule that applies, and whose kernel accepts the products, decides.
struct Rule {
  const Kernel* kernel;
  int least_products, most_products;  // of one launch
  ProductShape shape;
  int64_t least_rows, most_rows;
  int64_t least_filled = 0;  // percent of the multiprocessors that panels must fill
};
constexpr Rule kRules[] = {
    {&kSparseKernel, 1, 1, ProductShape::any, 1, kMostOwnRows},
    {&kGemvKernel, 1, kMostProducts, ProductShape::any, 1, 1},
    {&kSkinnyKernel, 1, kMostProducts, ProductShape::any, 1, kMostOwnRows},
    // RWKV-7's six or seven first products; RWKV-6's five, which the library beats from 129 rows on with two
    // of them on side queues.
    {&kWgmmaKernel, 6, kMostProducts, ProductShape::any, 9, kMostProjectionRows},
    {&kWgmmaKernel, 6, kMostProducts, ProductShape::narrow, 9, kMostNarrowProjectionRows},
    {&kWgmmaKernel, 5, 5, ProductShape::any, 9, 128},
    {&kWgmmaKernel, 1, 1, ProductShape::relu_squared, 9, 128},
    {&kWgmmaKernel, 1, 1, ProductShape::relu_squared, 129, 960, 80},
    {&kWgmmaKernel, 1, 1, ProductShape::square, 9, 32},
    // Where there are no panels. From 33 rows on a matrix that is alone fills the GPU by the library as well.
    {&kMmaKernel, 5, kMostProducts, ProductShape::any, 9, kMostTileRows},
    {&kMmaKernel, 1, 1, ProductShape::relu_squared, 9, kMostAloneTileRows},
    {&kMmaKernel, 1, 1, ProductShape::square, 9, kMostAloneTileRows},
    // From packed codes: by panels where there are some, else whatever the device.
    {&kWgmmaQKernel, 1, kMostProducts, ProductShape::any, kMostOwnRows + 1, kMostPackedPanelRows},
    {&kSparseQKernel, 1, 1, ProductShape::any, 1, kMostPackedValueRows},
    {&kSkinnyQKernel, 1, kMostProducts, ProductShape::any, 1, kMostOwnRows},
    {&kMmaQKernel, 1, kMostProducts, ProductShape::any, 1, kMostPackedTileRows},
    // E4M3 weights whose inputs become E4M3.
    {&kWgmmaFp8Kernel, 1, kMostProducts, ProductShape::any, 1, kMostFloat8PanelRows},
    {&kLibraryFp8Kernel, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    // Without matrix units.
    {&kSimtKernel, 1, kMostProducts, ProductShape::any, 1, kMostOwnRows},
    // RWKV-7's low-rank products, where the others have another format.
    {&kWgmmaKernel, 3, 4, ProductShape::low_rank, 9, kMostPanelRows},
    {&kMmaKernel, 3, 4, ProductShape::low_rank, 9, kMostTileRows},
    {&kLibraryKernel, 1, kMostProducts, ProductShape::any, 1, kMostRows},
};

// In a fixed order of adding: the bits of a product's row depend on its input and weight alone. No rule may
// look at the number of rows, and no kernel divides a sum by it (fixed_order of the plans).
constexpr Rule kFixedRules[] = {
    {&kWgmmaKernel, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    {&kWgmmaQKernel, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    {&kMmaKernel, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    {&kMmaQKernel, 1, kMostProducts, ProductShape::any, 1, kMostRows},
    {&kNaiveKernel, 1, kMostProducts, ProductShape::any, 1, kMostRows},
};

bool has_shape(const Product& product, ProductShape shape) {
  switch (shape) {
    case ProductShape::any:
      return true;
    case ProductShape::relu_squared:
      return product.epilogue == Epilogue::relu_squared;
    case ProductShape::low_rank:
      return 4 * product.weight.out <= product.weight.in;
    case ProductShape::narrow:
      return product.weight.in <= kMostNarrowInputs;
    case ProductShape::square:
      return product.epilogue == Epilogue::none && product.weight.in == product.weight.out;
  }
  return false;
}

// Returns the percentage of the multiprocessors that panels fill.
int64_t panels_filled(ProductList products, const ProductDevice& device) {
  if constexpr (kHopperCode) return plan_panels(products, {device.multiprocessors}).filled;
  return 0;
}

bool takes(const Kernel& kernel, ProductList products, const ProductDevice& device) {
  return (kernel.needs == nullptr || kernel.needs(device)) && kernel.accepts(products, device);
}

}  // namespace

const Kernel* choose_kernel(ProductList products, const ProductDevice& device) {
  const int64_t rows = products.front().in.rows;
  const auto count = static_cast<int>(products.size());
  const std::span<const Rule> rules = device.fixed_order ? std::span<const Rule>(kFixedRules) : kRules;
  for (const Rule& rule : rules) {
    if (count < rule.least_products || count > rule.most_products) continue;
    if (rows < rule.least_rows || rows > rule.most_rows) continue;
    if (!has_shape(products.front(), rule.shape) || !takes(*rule.kernel, products, device)) continue;
    if (rule.least_filled > 0 && panels_filled(products, device) < rule.least_filled) continue;
    return rule.kernel;
  }
  return &kLibraryKernel;
}

const Kernel* choose_side_kernel(const Product& product) {
  return suits_float8_inputs(product) ? &kLibraryFp8Kernel : &kLibraryKernel;
}

}  // namespace fulmar::gpu
