#include "gpu/gemm/kernels.h"

#include <span>

#include "gpu/gemm/operands.h"
#include "gpu/gemm/sm90/wgmma.h"

namespace fulmar::gpu {

namespace {

// All limits were measured on H200 cards with RWKV-7 7.2B and RWKV-6 7B.
constexpr int64_t kMostMmaRows = 64, kMostAloneMmaRows = 32, kMostLowRankWgmmaRows = 320;
constexpr int64_t kMostProjectionRows = 896, kMostNarrowProjectionRows = 1408, kMostNarrowInputs = 2048;
constexpr int64_t kMostSparseQRows = 64, kMostMmaQRows = 128, kMostWgmmaQRows = 1536;

// The shapes of products that rules distinguish.
enum class GemmShape : uint8_t {
  any,
  relu_squared,  // a matrix with relu² as epilogue: the feed-forward's key
  low_rank,      // few outputs for its inputs
  narrow,        // few inputs, as small models have
  square,        // as many outputs as inputs, no epilogue: the output matrix
};

// The first rule that applies, and whose kernel accepts the products, decides.
struct Rule {
  const Kernel* kernel;
  int least_products, most_products;  // of one launch
  GemmShape shape;
  int64_t least_rows, most_rows;
  int64_t least_filled = 0;  // percent of the SMs that wgmma must fill
};
constexpr Rule kRules[] = {
    {&kSparseKernel, 1, 1, GemmShape::any, 1, kMostSkinnyRows},
    {&kGemvKernel, 1, kMostGemms, GemmShape::any, 1, 1},
    {&kSkinnyKernel, 1, kMostGemms, GemmShape::any, 1, kMostSkinnyRows},
    // RWKV-7's six or seven first products; RWKV-6's five, for which the library is quicker from 129 rows on
    // with two of them on side queues.
    {&kWgmmaKernel, 6, kMostGemms, GemmShape::any, 9, kMostProjectionRows},
    {&kWgmmaKernel, 6, kMostGemms, GemmShape::narrow, 9, kMostNarrowProjectionRows},
    {&kWgmmaKernel, 5, 5, GemmShape::any, 9, 128},
    {&kWgmmaKernel, 1, 1, GemmShape::relu_squared, 9, 128},
    {&kWgmmaKernel, 1, 1, GemmShape::relu_squared, 129, 960, 80},
    {&kWgmmaKernel, 1, 1, GemmShape::square, 9, 32},
    // Without wgmma. From 33 rows on the library fills the GPU with a single matrix as well.
    {&kMmaKernel, 5, kMostGemms, GemmShape::any, 9, kMostMmaRows},
    {&kMmaKernel, 1, 1, GemmShape::relu_squared, 9, kMostAloneMmaRows},
    {&kMmaKernel, 1, 1, GemmShape::square, 9, kMostAloneMmaRows},
    // From packed codes: by wgmma where the device has it, else on any device.
    {&kWgmmaQKernel, 1, kMostGemms, GemmShape::any, kMostSkinnyRows + 1, kMostWgmmaQRows},
    {&kSparseQKernel, 1, 1, GemmShape::any, 1, kMostSparseQRows},
    {&kSkinnyQKernel, 1, kMostGemms, GemmShape::any, 1, kMostSkinnyRows},
    {&kMmaQKernel, 1, kMostGemms, GemmShape::any, 1, kMostMmaQRows},
    // E4M3 weights whose inputs are quantised to E4M3.
    {&kWgmmaFp8Kernel, 1, kMostGemms, GemmShape::any, 1, kMostWgmmaFp8Rows},
    {&kLibraryFp8Kernel, 1, kMostGemms, GemmShape::any, 1, kMostRows},
    // Without matrix units.
    {&kSimtKernel, 1, kMostGemms, GemmShape::any, 1, kMostSkinnyRows},
    // RWKV-7's low-rank products, where its other first products have another format.
    {&kWgmmaKernel, 3, 4, GemmShape::low_rank, 9, kMostLowRankWgmmaRows},
    {&kMmaKernel, 3, 4, GemmShape::low_rank, 9, kMostMmaRows},
    {&kLibraryKernel, 1, kMostGemms, GemmShape::any, 1, kMostRows},
};

// In a fixed order of adding, the bits of a product's row depend on its input and weight alone: no rule may
// depend on the number of rows, and no kernel splits a sum by it (fixed_order of the plans).
constexpr Rule kFixedRules[] = {
    {&kWgmmaKernel, 1, kMostGemms, GemmShape::any, 1, kMostRows},
    {&kWgmmaQKernel, 1, kMostGemms, GemmShape::any, 1, kMostRows},
    {&kMmaKernel, 1, kMostGemms, GemmShape::any, 1, kMostRows},
    {&kMmaQKernel, 1, kMostGemms, GemmShape::any, 1, kMostRows},
    {&kNaiveKernel, 1, kMostGemms, GemmShape::any, 1, kMostRows},
};

bool has_shape(const Gemm& product, GemmShape shape) {
  switch (shape) {
    case GemmShape::any:
      return true;
    case GemmShape::relu_squared:
      return product.epilogue == Epilogue::relu_squared;
    case GemmShape::low_rank:
      return 4 * product.weight.out <= product.weight.in;
    case GemmShape::narrow:
      return product.weight.in <= kMostNarrowInputs;
    case GemmShape::square:
      return product.epilogue == Epilogue::none && product.weight.in == product.weight.out;
  }
  return false;
}

// Returns the percentage of the SMs that wgmma fills.
int64_t wgmma_filled(GemmList products, const GemmDevice& device) {
  if constexpr (kHopperCode) return plan_wgmma(products, {device.multiprocessors}).filled;
  return 0;
}

bool takes(const Kernel& kernel, GemmList products, const GemmDevice& device) {
  return (kernel.needs == nullptr || kernel.needs(device)) && kernel.accepts(products, device);
}

}  // namespace

const Kernel* choose_kernel(GemmList products, const GemmDevice& device) {
  const int64_t rows = products.front().in.rows;
  const auto count = static_cast<int>(products.size());
  const std::span<const Rule> rules = device.fixed_order ? std::span<const Rule>(kFixedRules) : kRules;
  for (const Rule& rule : rules) {
    if (count < rule.least_products || count > rule.most_products) continue;
    if (rows < rule.least_rows || rows > rule.most_rows) continue;
    if (!has_shape(products.front(), rule.shape) || !takes(*rule.kernel, products, device)) continue;
    if (rule.least_filled > 0 && wgmma_filled(products, device) < rule.least_filled) continue;
    return rule.kernel;
  }
  return &kLibraryKernel;
}

const Kernel* choose_side_kernel(const Gemm& product) {
  return suits_float8_inputs(product) ? &kLibraryFp8Kernel : &kLibraryKernel;
}

}  // namespace fulmar::gpu
