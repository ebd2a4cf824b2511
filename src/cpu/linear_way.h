// Which way a product is computed: one rule over its rows and the format of its weights. Knows nothing of
// how each way works.
#pragma once

#include <cstdint>

#include "cpu/linear_coded.h"
#include "tensor/weight.h"

namespace fulmar {

enum class LinearWay : uint8_t {
  sparse,   // linear_sparse.h: transposed weights of inputs that are not zero; in one order for any rows
  coded,    // linear_coded.h: interleaved quantised weights, in whole numbers; in one order for any rows
  decoded,  // linear_decoded.h: interleaved or transposed weights, f32, decoded once for all rows
  dot,      // linear_dot.h: f32, each weight widened or decoded once for some rows
  panels,   // linear_panel.h: f32, each weight widened or decoded once for a block of packed rows; or
            // linear_amx.h
};

// Beyond, packing the rows pays where AMX does not multiply them.
constexpr int64_t kMostDotRows = 32;

// How the terms of a product are added up.
enum class LinearOrder : uint8_t {
  quickest,  // as suits the number of rows
  fixed,     // in one order whatever that is: an output's bits depend on its row and weights alone
};

// What a whole backend has in common of its products.
struct LinearMode {
  LinearOrder order = LinearOrder::quickest;
  CodedActivations activations = CodedActivations::bits22;
  bool has_vnni = false;  // as linear_coded.h says of this processor
  bool has_amx = false;   // as linear_amx.h does
};

// Beyond, decoding interleaved weights once for all rows costs less than multiplying their codes for each.
int64_t most_coded_rows(const LinearMode& mode);

// Whether panels of this matrix are multiplied in linear_amx.h's form.
bool goes_by_amx(const Weight& weight, const LinearMode& mode);

// Beyond, panels are quicker than dots.
int64_t most_dot_rows(const Weight& weight, const LinearMode& mode);

// The way of a product whose input has `zeros`, a share in [0, 1], of zeros.
LinearWay linear_way(int64_t rows, const Weight& weight, const LinearMode& mode = {}, double zeros = 1);

}  // namespace fulmar
