// Which way products go, by rows, shape and device: the table of gemm/kernels.h against what islands ask
// for; needs no GPU.
#include "gpu/gemm/kernels.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "gpu/gemm/layout/packed.h"
#include "tensor/format.h"

namespace fulmar {
namespace {

using gpu::Epilogue;
using gpu::Gemm;

constexpr gpu::GemmDevice kWithPanels{132, true, true}, kWithout{132, false, true},
    kNoMatrixUnits{132, false, false};
constexpr int64_t kWidth = 4096, kHidden = 4 * kWidth;

Weight weight(int64_t out, int64_t in, bool transposed = false) {
  return {DType::f16, out, in, nullptr, transposed ? WeightLayout::columns : WeightLayout::rows};
}

Gemm product(int64_t rows, const Weight& by, Epilogue epilogue = Epilogue::none, DType to = DType::f16) {
  return {{nullptr, DType::f16, rows, by.in, by.in}, by, {nullptr, to, rows, by.out, by.out}, epilogue};
}

using Name = std::string_view;  // of a kernel

Name way(const Gemm& one, const gpu::GemmDevice& device) {
  return gpu::choose_kernel({&one, 1}, device)->name;
}
Name key(int64_t rows, const gpu::GemmDevice& device) {
  return way(product(rows, weight(kHidden, kWidth), Epilogue::relu_squared), device);
}
Name output(int64_t rows, const gpu::GemmDevice& device) {
  return way(product(rows, weight(kWidth, kWidth)), device);
}
Name first_products(int64_t rows, size_t count, const gpu::GemmDevice& device, int64_t rank = 96,
                    int64_t width = kWidth) {
  std::vector<Gemm> list(3, product(rows, weight(width, width)));
  while (list.size() < count) list.push_back(product(rows, weight(rank, width), Epilogue::tanh));
  return gpu::choose_kernel(list, device)->name;
}

TEST(ProductChoice, FewRowsReadEveryWeightOnce) {
  for (const auto& device : {kWithPanels, kWithout}) {
    for (const int64_t rows : {2, 5, 8}) {
      EXPECT_EQ(first_products(rows, 7, device), "skinny") << rows;
      EXPECT_EQ(key(rows, device), "skinny") << rows;
    }
    EXPECT_EQ(first_products(1, 7, device), "gemv");
    EXPECT_EQ(output(1, device), "gemv");
    EXPECT_EQ(way(product(1, weight(65536, kWidth), Epilogue::none, DType::f32), device), "gemv");
    EXPECT_EQ(way(product(4, weight(65536, kWidth), Epilogue::none, DType::f32), device), "skinny");
  }
}

TEST(ProductChoice, WithoutMatrixUnitsFewRowsGoByDotProducts) {
  const Weight value = weight(kWidth, kHidden);
  for (const int64_t rows : {1, 4, 8}) {
    EXPECT_EQ(first_products(rows, 7, kNoMatrixUnits), "simt") << rows;
    EXPECT_EQ(key(rows, kNoMatrixUnits), "simt") << rows;
    EXPECT_EQ(way(product(rows, value), kNoMatrixUnits), "simt") << rows;
  }
  EXPECT_EQ(way(product(4, weight(65536, kWidth), Epilogue::none, DType::f32), kNoMatrixUnits), "simt");
}

TEST(ProductChoice, WithoutMatrixUnitsTheLibraryDoesTheRest) {
  for (const int64_t rows : {9, 32, 320, 4096}) {
    EXPECT_EQ(first_products(rows, 7, kNoMatrixUnits), "library") << rows;
    EXPECT_EQ(key(rows, kNoMatrixUnits), "library") << rows;
    EXPECT_EQ(way(product(rows, weight(kWidth, kHidden, true)), kNoMatrixUnits), "library") << rows;
  }
  EXPECT_EQ(way(product(1, weight(64, 100)), kNoMatrixUnits), "library");  // rows of no whole vectors
  EXPECT_EQ(way(product(1, {DType::q8_0, kWidth, kWidth}), kNoMatrixUnits), "library");
}

TEST(ProductChoice, ZerosAreSkippedForUpToEightRows) {
  for (const int64_t rows : {1, 8}) {
    EXPECT_EQ(way(product(rows, weight(kWidth, kHidden, true)), kWithPanels), "sparse") << rows;
  }
  EXPECT_EQ(way(product(9, weight(kWidth, kHidden, true)), kWithPanels), "library");
  EXPECT_EQ(way(product(8, weight(kWidth, kHidden)), kWithPanels), "skinny");
}

TEST(ProductChoice, PanelsTakeWhatWasMeasuredToPay) {
  for (const int64_t rows : {9, 64, 320, 896}) {
    EXPECT_EQ(first_products(rows, 7, kWithPanels), "wgmma") << rows;
    EXPECT_EQ(first_products(rows, 6, kWithPanels), "wgmma") << rows;
  }
  EXPECT_EQ(first_products(897, 7, kWithPanels), "library");
  EXPECT_EQ(first_products(1408, 7, kWithPanels, 96, 2048), "wgmma");
  EXPECT_EQ(first_products(1409, 7, kWithPanels, 96, 2048), "library");
  EXPECT_EQ(first_products(128, 5, kWithPanels), "wgmma");
  EXPECT_EQ(first_products(129, 5, kWithPanels), "library");
  EXPECT_EQ(first_products(32, 2, kWithPanels), "library");  // a gate goes beside its key
  for (const int64_t rows : {9, 128, 320, 960}) EXPECT_EQ(key(rows, kWithPanels), "wgmma") << rows;
  EXPECT_EQ(key(160, kWithPanels), "library");  // tiles of 128 rows would be filled to five eighths
  EXPECT_EQ(output(9, kWithPanels), "wgmma");
  EXPECT_EQ(output(32, kWithPanels), "wgmma");
  EXPECT_EQ(output(33, kWithPanels), "library");
}

TEST(ProductChoice, WholePromptsGoToTheLibrary) {
  for (const int64_t rows : {961, 1024, 2048, 4097}) {
    EXPECT_EQ(key(rows, kWithPanels), "library") << rows;
    EXPECT_EQ(key(rows, kWithout), "library") << rows;
  }
}

TEST(ProductChoice, TilesTakeThePlaceOfPanelsUpTo64Rows) {
  for (const int64_t rows : {9, 32, 64}) {
    EXPECT_EQ(first_products(rows, 7, kWithout), "mma") << rows;
    EXPECT_EQ(first_products(rows, 5, kWithout), "mma") << rows;
  }
  for (const int64_t rows : {9, 32}) {
    EXPECT_EQ(key(rows, kWithout), "mma") << rows;
    EXPECT_EQ(output(rows, kWithout), "mma") << rows;
  }
  EXPECT_EQ(first_products(65, 7, kWithout), "library");
  EXPECT_EQ(key(33, kWithout), "library");
  EXPECT_EQ(output(33, kWithout), "library");
}

TEST(ProductChoice, OperandsThatAKernelCannotReadGoToTheLibrary) {
  EXPECT_EQ(way(product(1, weight(64, 100)), kWithPanels), "library");       // rows of no whole vectors
  EXPECT_EQ(way(product(4, weight(64, 64, true)), kWithPanels), "library");  // [K, outs]
  EXPECT_EQ(first_products(32, 7, kWithPanels, 90), "library");              // outputs not by fours
  EXPECT_EQ(first_products(8, 7, kWithPanels, 90), "skinny");
  EXPECT_EQ(way(product(32, weight(kWidth, kWidth), Epilogue::none, DType::f32), kWithPanels), "library");
}

Weight coded(DType dtype, int64_t out, int64_t in, bool transposed = false) {
  Weight weight{dtype, out, in};
  weight.group = is_scaled(dtype) ? in : 0;
  weight.layout = gpu::code_layout(dtype, out, in, weight.group, transposed);
  return weight;
}

TEST(ProductChoice, OtherFormatsAreNeverReadAs16Bits) {
  for (const Format& format : kFormats) {
    if (format.dtype == DType::f16) continue;
    const bool packed = gpu::is_packed(coded(format.dtype, kWidth, kWidth));
    const auto expect_known = [&](Name found) {
      const bool reads_codes =
          found == "sparse_q" || found == "skinny_q" || found == "mma_q" || found == "wgmma_q";
      EXPECT_TRUE(found == "library" || (packed && reads_codes)) << found;
    };
    for (const bool transposed : {false, true}) {
      const Weight square = coded(format.dtype, kWidth, kWidth, transposed),
                   wide = coded(format.dtype, kHidden, kWidth, transposed),
                   narrow = coded(format.dtype, kWidth, kHidden, transposed);
      for (const int64_t rows : {1, 2, 8, 9, 32, 64, 128, 320, 1536, 1537}) {
        SCOPED_TRACE(std::string(format.name) + ", " + std::to_string(rows) + " rows");
        expect_known(way(product(rows, square), kWithPanels));
        expect_known(way(product(rows, wide, Epilogue::relu_squared), kWithPanels));
        expect_known(way(product(rows, narrow), kWithPanels));
        expect_known(way(product(rows, square), kWithout));
        expect_known(gpu::choose_kernel(std::vector<Gemm>(7, product(rows, square)), kWithPanels)->name);
      }
    }
  }
}

TEST(ProductChoice, PackedCodesAreMultipliedAsTheyAre) {
  for (const auto& device : {kWithPanels, kWithout}) {
    const Name of_some = device.wgmma ? "wgmma_q" : "mma_q";
    for (const DType dtype : {DType::q8_0, DType::i8, DType::f8_e4m3, DType::q4_0, DType::q4_k, DType::q6_k,
                              DType::iq4_nl, DType::nf4, DType::i4}) {
      SCOPED_TRACE(std::string(name_of(dtype)));
      const Weight square = coded(dtype, kWidth, kWidth), head = coded(dtype, 65536, kWidth);
      for (const int64_t rows : {1, 8}) EXPECT_EQ(way(product(rows, square), device), "skinny_q");
      for (const int64_t rows : {9, 128}) EXPECT_EQ(way(product(rows, square), device), of_some);
      EXPECT_EQ(way(product(1536, square), device), device.wgmma ? of_some : "library");
      EXPECT_EQ(way(product(1537, square), device), "library");
      EXPECT_EQ(way(product(1, head, Epilogue::none, DType::f32), device), "skinny_q");
      EXPECT_EQ(way(product(32, head, Epilogue::none, DType::f32), device), of_some);
      if (dtype == DType::q6_k) continue;  // not packed transposed
      const Weight value = coded(dtype, kWidth, kHidden, true);
      for (const int64_t rows : {1, 8}) EXPECT_EQ(way(product(rows, value), device), "sparse_q");
      for (const int64_t rows : {9, 64}) {
        EXPECT_EQ(way(product(rows, value), device), device.wgmma ? "wgmma_q" : "sparse_q");
      }
      EXPECT_EQ(way(product(1537, value), device), "library");
    }
    EXPECT_EQ(way(product(1, coded(DType::q5_k, kWidth, kWidth)), device), "library") << "has no kernel";
    EXPECT_EQ(way(product(1, coded(DType::q8_0, 64, 96)), device), "library") << "no whole pieces";
  }
}

TEST(ProductChoice, InputsOfRowsOfFloat8BecomeFloat8FromNineRowsOn) {
  const auto stored = [](int64_t out, int64_t in) {
    Weight weight = coded(DType::f8_e4m3, out, in);
    weight.layout = WeightLayout::float8_rows;
    return weight;
  };
  const Weight square = stored(kWidth, kWidth), value = stored(kWidth, kHidden);
  for (const int64_t rows : {1, 8}) EXPECT_EQ(way(product(rows, square), kWithPanels), "skinny_q");
  for (const int64_t rows : {9, 320, 960}) EXPECT_EQ(way(product(rows, square), kWithPanels), "wgmma_fp8");
  EXPECT_EQ(way(product(1025, square), kWithPanels), "library_fp8");
  EXPECT_EQ(way(product(9, square), kWithout), "library_fp8");
  EXPECT_EQ(way(product(2, value), kWithPanels), "skinny_q");
  EXPECT_EQ(way(product(3, value), kWithPanels), "wgmma_fp8") << "its inputs find no room in shared memory";
  EXPECT_EQ(gpu::choose_kernel(std::vector<Gemm>(3, product(9, square)), kWithPanels)->name, "wgmma_fp8");
  EXPECT_EQ(gpu::choose_side_kernel(product(9, square))->name, "library_fp8");
  EXPECT_EQ(gpu::choose_side_kernel(product(9, coded(DType::f8_e4m3, kWidth, kWidth)))->name, "library");
  EXPECT_EQ(way(product(9, stored(kWidth, 100)), kWithPanels), "library") << "no whole vectors";
}

TEST(ProductChoice, PackedPanelsTakeHalves) {
  const Weight square = coded(DType::q8_0, kWidth, kWidth);
  Gemm one = product(32, square);
  one.in.dtype = one.out.dtype = DType::bf16;
  EXPECT_EQ(way(one, kWithPanels), "library");
}

// What decides the order of adding must not look at the number of rows.
TEST(ProductChoice, InAFixedOrderRowsAreNoReasonForAnotherWay) {
  const auto fixed = [](gpu::GemmDevice device) {
    device.fixed_order = true;
    return device;
  };
  for (const gpu::GemmDevice& device : {kWithPanels, kWithout, kNoMatrixUnits}) {
    for (const Format& format : kFormats) {
      const Weight square = coded(format.dtype, kWidth, kWidth), wide = coded(format.dtype, kHidden, kWidth),
                   odd = coded(format.dtype, 90, kWidth);
      for (const Weight& one : {square, wide, odd}) {
        for (const DType to : {DType::f16, DType::f32}) {
          const Name alone = way(product(1, one, Epilogue::none, to), fixed(device));
          EXPECT_NE(alone, "library") << format.name;
          for (const int64_t rows : {2, 8, 9, 64, 65, 128, 129, 320, 321, 1024, 4096}) {
            EXPECT_EQ(way(product(rows, one, Epilogue::none, to), fixed(device)), alone)
                << format.name << ", " << rows << " rows";
          }
        }
      }
    }
  }
  EXPECT_EQ(output(1, fixed(kWithPanels)), "wgmma");
  EXPECT_EQ(output(1, fixed(kWithout)), "mma");
  EXPECT_EQ(output(1, fixed(kNoMatrixUnits)), "naive");
  EXPECT_EQ(way(product(1, coded(DType::q4_k, kWidth, kWidth)), fixed(kWithPanels)), "wgmma_q");
  EXPECT_EQ(way(product(1, coded(DType::q4_k, kWidth, kWidth)), fixed(kWithout)), "mma_q");
}

}  // namespace
}  // namespace fulmar
