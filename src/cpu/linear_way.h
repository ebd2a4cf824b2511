// Chooses how a product is computed: one rule over its rows and the format of its weights.
// Knows nothing of how each way works.
#pragma once

#include <cstdint>

#include "cpu/linear_coded.h"
#include "tensor/weight.h"

namespace fulmar {

enum class LinearWay : uint8_t {
  sparse,   // linear_sparse.h: transposed weights, nonzero inputs only; in one order for any rows
  coded,    // linear_coded.h: interleaved quantised weights, in whole numbers; in one order for any rows
  decoded,  // linear_decoded.h: interleaved or transposed weights, f32, decoded once for all rows
  dot,      // linear_dot.h: f32, each weight widened or decoded once for some rows
  panels,   // linear_panel.h: f32, each weight widened or decoded once for a block of packed rows; or
            // linear_amx.h
};

// For more rows, packing them pays where AMX does not multiply them.
constexpr int64_t kMostDotRows = 32;

// The order in which a product's terms are added up.
enum class LinearOrder : uint8_t {
  quickest,  // depends on the number of rows
  fixed,     // one order for any number: an output's bits depend on its row and weights alone
};

// The settings that all products of a backend share.
struct LinearMode {
  LinearOrder order = LinearOrder::quickest;
  CodedActivations activations = CodedActivations::bits22;
  bool has_vnni = false;  // of linear_coded.h
  bool has_amx = false;   // of linear_amx.h
};

// Returns the most rows for linear_coded.h; for more, decoding once for all rows costs less.
int64_t most_coded_rows(const LinearMode& mode);

// Returns whether panels of this matrix are multiplied by linear_amx.h.
bool goes_by_amx(const Weight& weight, const LinearMode& mode);

// Returns the most rows for dots; for more, panels are quicker.
int64_t most_dot_rows(const Weight& weight, const LinearMode& mode);

// Returns the way of a product whose input has the fraction `zeros`, in [0, 1], of zeros.
LinearWay linear_way(int64_t rows, const Weight& weight, const LinearMode& mode = {}, double zeros = 1);

}  // namespace fulmar
