// Layouts of 16 x 16 tiles against the matrix instructions that they describe, emulated register by register
// as AMD documents them: which lane and which of its registers take part in which sum. Needs no GPU.
#include "gpu/device/tile_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace fulmar {
namespace {

using gpu::DotLayout;
using gpu::kTile;
using gpu::MfmaLayout;
using gpu::WmmaLayout;

using Matrix = std::array<std::array<float, kTile>, kTile>;

// Registers of a wave: [lane][one of each].
template <int kLanes, int kRegisters>
using Registers = std::array<std::array<float, kRegisters>, kLanes>;

// v_mfma_f32_16x16x16_f16: four blocks of 16 lanes; block b of the result takes register i of lane 4b + i of
// each block of A, and lane j of each block of B.
Registers<64, 4> mfma(const Registers<64, 4>& a, const Registers<64, 4>& b, Registers<64, 4> d) {
  for (size_t block = 0; block < 4; block++) {
    for (size_t j = 0; j < 16; j++) {
      for (size_t i = 0; i < 4; i++) {
        for (size_t inner = 0; inner < 4; inner++) {
          for (size_t k = 0; k < 4; k++) {
            d[16 * block + j][i] += a[16 * inner + 4 * block + i][k] * b[16 * inner + j][k];
          }
        }
      }
    }
  }
  return d;
}

// v_wmma_f32_16x16x16_f16 in a wave of 32: register i of lane j of the lower half is row 2i of the result, of
// the upper half row 2i + 1. Both halves hold the operands, and each reads its own.
Registers<32, 8> wmma(const Registers<32, 16>& a, const Registers<32, 16>& b, Registers<32, 8> d) {
  for (size_t half = 0; half < 2; half++) {
    for (size_t j = 0; j < 16; j++) {
      for (size_t i = 0; i < 8; i++) {
        for (size_t k = 0; k < 16; k++) {
          d[16 * half + j][i] += a[16 * half + 2 * i + half][k] * b[16 * half + j][k];
        }
      }
    }
  }
  return d;
}

Matrix random_matrix(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> number(-8, 8);  // sums of such products are exact
  Matrix out;
  for (auto& row : out) {
    for (float& x : row) x = static_cast<float>(number(random));
  }
  return out;
}

template <class Layout>
auto operand_registers(const Matrix& from) {
  Registers<Layout::kLanes, Layout::kOperand> out;
  for (int lane = 0; lane < Layout::kLanes; lane++) {
    for (int i = 0; i < Layout::kOperand; i++) {
      out[static_cast<size_t>(lane)][static_cast<size_t>(i)] =
          from[static_cast<size_t>(Layout::operand_line(lane))]
              [static_cast<size_t>(Layout::operand_inner(lane) + i)];
    }
  }
  return out;
}

template <class Layout, class F>
void for_each_sum(F&& f) {
  for (int lane = 0; lane < Layout::kLanes; lane++) {
    for (int i = 0; i < Layout::kSums; i++) {
      f(static_cast<size_t>(lane), static_cast<size_t>(i), static_cast<size_t>(Layout::row(lane, i)),
        static_cast<size_t>(Layout::column(lane)));
    }
  }
}

template <class Layout>
class TileLayout : public testing::Test {};
using AllLayouts = testing::Types<MfmaLayout, WmmaLayout, DotLayout>;
TYPED_TEST_SUITE(TileLayout, AllLayouts);

TYPED_TEST(TileLayout, EverySumHasOneLane) {
  std::set<std::pair<size_t, size_t>> seen;
  for_each_sum<TypeParam>([&](size_t, size_t, size_t row, size_t column) {
    EXPECT_LT(row, kTile);
    EXPECT_LT(column, kTile);
    EXPECT_TRUE(seen.emplace(row, column).second) << row << ", " << column;
  });
  EXPECT_EQ(seen.size(), kTile * kTile);
}

TYPED_TEST(TileLayout, OperandsAreWholeAndAligned) {
  std::array<std::array<int, kTile>, kTile> times{};
  for (int lane = 0; lane < TypeParam::kLanes; lane++) {
    const int inner = TypeParam::operand_inner(lane);
    EXPECT_EQ(inner % TypeParam::kOperand, 0);
    for (int i = 0; i < TypeParam::kOperand; i++) {
      times.at(static_cast<size_t>(TypeParam::operand_line(lane))).at(static_cast<size_t>(inner + i))++;
    }
  }
  for (const auto& row : times) {
    for (const int count : row) EXPECT_EQ(count, TypeParam::kLanes * TypeParam::kOperand / (kTile * kTile));
  }
}

template <class Layout, class Instruction>
void expect_product(Instruction&& instruction) {
  const Matrix a = random_matrix(1), b = random_matrix(2), before = random_matrix(3);
  Registers<Layout::kLanes, Layout::kSums> sums;
  for_each_sum<Layout>(
      [&](size_t lane, size_t i, size_t row, size_t column) { sums[lane][i] = before[row][column]; });
  sums = instruction(operand_registers<Layout>(a), operand_registers<Layout>(b), sums);
  for_each_sum<Layout>([&](size_t lane, size_t i, size_t row, size_t column) {
    float want = before[row][column];
    for (size_t k = 0; k < kTile; k++) want += a[row][k] * b[column][k];
    EXPECT_EQ(sums[lane][i], want) << row << ", " << column;
  });
}

TEST(TileLayouts, TheInstructionOfWavesOf64GivesTheProduct) { expect_product<MfmaLayout>(mfma); }
TEST(TileLayouts, TheInstructionOfWavesOf32GivesTheProduct) { expect_product<WmmaLayout>(wmma); }

}  // namespace
}  // namespace fulmar
