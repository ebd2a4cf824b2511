// AMD's GEMM libraries through the one door to them, with fakes in their place that compute on the host: what
// is asked of them, what is kept, and what happens without them. Needs no GPU.
#include "gpu/gemm/library/amd/gemm_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/shared_library.h"

namespace fulmar {
namespace {

using gpu::GemmLibrary;
using gpu::LibraryProduct;
using testing::HasSubstr;

constexpr const char* kHipblaslt[] = {"libabsent.so.9", FULMAR_BINARY_DIR "/libfulmar_fake_hipblaslt.so"};
constexpr const char* kRocblas[] = {FULMAR_BINARY_DIR "/libfulmar_fake_rocblas.so"};

float number_at(int64_t row, int64_t col) { return static_cast<float>((row * 7 + col * 3) % 9 - 4); }

uint16_t bf16(float x) {  // small integers are numbers of it
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

// out = in @ weight^T of known numbers by the library; nothing where it has no kernel.
struct Sizes {
  int64_t rows, outs, inner;
  bool transposed;
};
std::vector<float> multiplied(GemmLibrary& library, const Sizes& sizes) {
  const int64_t in_stride = sizes.inner + 2, out_stride = sizes.outs + 3;
  std::vector<uint16_t> in(static_cast<size_t>(sizes.rows * in_stride)),
      weight(static_cast<size_t>(sizes.outs * sizes.inner));
  for (int64_t k = 0; k < sizes.inner; k++) {
    for (int64_t row = 0; row < sizes.rows; row++)
      in[static_cast<size_t>(row * in_stride + k)] = bf16(number_at(row, k));
    for (int64_t o = 0; o < sizes.outs; o++) {
      weight[static_cast<size_t>(sizes.transposed ? k * sizes.outs + o : o * sizes.inner + k)] =
          bf16(number_at(o + 1, k));
    }
  }
  std::vector<float> out(static_cast<size_t>(sizes.rows * out_stride), -1);
  const LibraryProduct product{sizes.rows, sizes.outs,    sizes.inner,      in.data(),
                               in_stride,  weight.data(), sizes.transposed, out.data(),
                               out_stride, DType::bf16,   DType::f32};
  const auto done = library.run(nullptr, product, {});
  EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().text);
  if (!done.ok() || !done.value()) return {};
  return out;
}

std::vector<float> expected(const Sizes& sizes) {
  const int64_t out_stride = sizes.outs + 3;
  std::vector<float> out(static_cast<size_t>(sizes.rows * out_stride), -1);
  for (int64_t row = 0; row < sizes.rows; row++) {
    for (int64_t o = 0; o < sizes.outs; o++) {
      float sum = 0;
      for (int64_t k = 0; k < sizes.inner; k++) sum += number_at(row, k) * number_at(o + 1, k);
      out[static_cast<size_t>(row * out_stride + o)] = sum;
    }
  }
  return out;
}

TEST(AmdGemmLibrary, BothGiveTheProduct) {
  auto quick = gpu::open_hipblaslt(kHipblaslt), every = gpu::open_rocblas(kRocblas);
  ASSERT_TRUE(quick.ok()) << quick.error().text;
  ASSERT_TRUE(every.ok()) << every.error().text;
  for (GemmLibrary* library : {quick.value().get(), every.value().get()}) {
    for (const bool transposed : {false, true}) {
      for (const Sizes& sizes : {Sizes{3, 5, 8, transposed}, Sizes{9, 2, 4, transposed}}) {
        EXPECT_EQ(multiplied(*library, sizes), expected(sizes));
      }
    }
  }
}

TEST(AmdGemmLibrary, AskOncePerProblemAndLeaveNothingBehind) {
  const SharedLibrary fake(kHipblaslt[1]);
  int (*objects)() = nullptr;
  int (*choices)() = nullptr;
  ASSERT_TRUE(fake.load("fake_objects", objects) && fake.load("fake_choices", choices));
  const int before = objects(), asked = choices();
  {
    auto library = gpu::open_hipblaslt(kHipblaslt);
    ASSERT_TRUE(library.ok());
    const Sizes sizes{3, 5, 8, false}, others{4, 5, 8, false};
    for (int i = 0; i < 3; i++) {
      EXPECT_EQ(multiplied(*library.value(), sizes), expected(sizes));
      EXPECT_EQ(multiplied(*library.value(), others), expected(others));
    }
    EXPECT_EQ(choices() - asked, 2);
  }
  EXPECT_EQ(objects(), before);
}

TEST(AmdGemmLibrary, SayWhenTheyHaveNoKernel) {
  auto quick = gpu::open_hipblaslt(kHipblaslt), every = gpu::open_rocblas(kRocblas);
  ASSERT_TRUE(quick.ok() && every.ok());
  const Sizes sizes{13, 5, 8, false};
  EXPECT_TRUE(multiplied(*quick.value(), sizes).empty());
  EXPECT_EQ(multiplied(*every.value(), sizes), expected(sizes));
}

TEST(AmdGemmLibrary, FailuresCarryTheCallAndItsStatus) {
  auto library = gpu::open_rocblas(kRocblas);
  ASSERT_TRUE(library.ok());
  uint16_t number[1] = {};
  const LibraryProduct halves{1, 1, 1, number, 1, number, false, number, 1, DType::f16, DType::f16};
  const auto done = library.value()->run(nullptr, halves, {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().text, "rocblas_gemm_ex, status 11");
}

TEST(AmdGemmLibrary, MissingFilesAndFunctionsAreNamed) {
  constexpr const char* kAbsent[] = {"libabsent.so.9", "libabsent.so"};
  const auto absent = gpu::open_hipblaslt(kAbsent);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().text, "hipBLASLt was not found as libabsent.so.9, libabsent.so");
  const auto other = gpu::open_hipblaslt(kRocblas);
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().text, HasSubstr("hipBLASLt lacks the function hipblasLtCreate"));
}

}  // namespace
}  // namespace fulmar
