// Blocked matrix products for many rows by AMX, the matrix units of Intel's processors from Sapphire Rapids
// on, instead of those of linear_panel.h. Knows nothing of threads.
//
// The units multiply bf16 and add in f32. An input is split into the sum of three bf16, which together have
// f32's 24 bits, or of two or one (`parts`); a weight of f16 into two, which is exact. A product is then a
// sum of products of tiles, 16 outputs x 32 terms by 32 terms x 16 rows: for bf16 weights as many as parts,
// for f16 5, 3 or 2. The normalised error is f32's with three parts, 4e-6 with two, 2e-3 with one.
#pragma once

#include <cstdint>

#include "cpu/linear_panel.h"

namespace fulmar {

constexpr int64_t kAmxTile = 16;     // outputs or rows
constexpr int64_t kAmxDepth = 32;    // terms
constexpr int64_t kAmxOutputs = 32;  // most outputs of a block
constexpr int64_t kAmxRowTile = 48;  // rows that are packed together; kPanelRows is a multiple

// Returns whether this processor has AMX for bf16 and the operating system lets the program
// use it; asks the system once.
bool has_amx();

// Returns whether a weight suits AMX: 16-bit floats, row-major or transposed
// (transposed.h), of whole tiles of terms.
bool suits_amx(const Weight& weight);

// Returns the most rows of a block: at most kPanelRows, and so few that their packed input stays in the L2
// cache from one block of outputs to the next.
int64_t amx_block_rows(int64_t depth, int parts);

// Returns the floats of the packed input.
int64_t amx_packed_floats(int64_t rows, int64_t depth, int parts);

// Packs and multiplies like pack_panel and multiply_panel; `row`: of kAmxRowTile, `first`: of kAmxDepth; at
// most kAmxOutputs outputs a block. Order of summation, the same for every row and block: k ascending.
void pack_amx(const BlockedProduct& product, int64_t row, int64_t first, int64_t last);
void multiply_amx(const BlockedProduct& product, const PanelBlock& block);

}  // namespace fulmar
