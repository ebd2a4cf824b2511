// Layouts of 16 x 16 tiles: which elements each lane of a wave holds in D[16, 16] += A[16, 16] * B[16, 16]^T,
// for each matrix instruction that tile.h has. Both operands have their inner index along memory. Pure.
//
// A layout says of each of kLanes lanes:
//   operand_line, operand_inner   kOperand neighbours of A's row operand_line start at operand_inner, and so
//                                 do those of B's row, which is a column of the product
//   row, column                   where its element i < kSums of D stands
#pragma once

namespace fulmar::gpu {

constexpr int kTile = 16;  // rows, columns and K

// MFMA, v_mfma_f32_16x16x16_f16 (CDNA): a wave of 64.
struct MfmaLayout {
  static constexpr int kLanes = 64, kOperand = 4, kSums = 4;
  static constexpr int operand_line(int lane) { return lane % 16; }
  static constexpr int operand_inner(int lane) { return lane / 16 * 4; }
  static constexpr int row(int lane, int i) { return lane / 16 * 4 + i; }
  static constexpr int column(int lane) { return lane % 16; }
};

// WMMA, v_wmma_f32_16x16x16_f16 (RDNA 3) on a wave of 32: both halves of it hold all of the operands.
struct WmmaLayout {
  static constexpr int kLanes = 32, kOperand = 16, kSums = 8;
  static constexpr int operand_line(int lane) { return lane % 16; }
  static constexpr int operand_inner(int /*lane*/) { return 0; }
  static constexpr int row(int lane, int i) { return 2 * i + lane / 16; }
  static constexpr int column(int lane) { return lane % 16; }
};

// Without matrix instructions: each of 32 lanes computes eight sums of one column by dot products.
struct DotLayout {
  static constexpr int kLanes = 32, kOperand = 16, kSums = 8;
  static constexpr int operand_line(int lane) { return lane % 16; }
  static constexpr int operand_inner(int /*lane*/) { return 0; }
  static constexpr int row(int lane, int i) { return lane / 16 * 8 + i; }
  static constexpr int column(int lane) { return lane % 16; }
};

}  // namespace fulmar::gpu
