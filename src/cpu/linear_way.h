// Which way a product is computed: one rule over its rows and the format of its weights. Knows nothing of
// how each way works.
#pragma once

#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

enum class LinearWay : uint8_t {
  coded,   // linear_coded.h: quantised weights as they lie, in whole numbers
  dot,     // linear_dot.h: f32, each weight widened or decoded once for some rows
  panels,  // linear_panel.h: f32, each weight widened or decoded once for a block of packed rows
};

// Beyond, decoding quantised weights once for all rows costs less than multiplying their codes for each.
constexpr int64_t kMostCodedRows = 3;
// Beyond, packing the rows pays.
constexpr int64_t kMostDotRows = 32;

// How the terms of a product are added up.
enum class LinearOrder : uint8_t {
  quickest,  // as suits the number of rows
  fixed,     // in one order whatever that is: an output's bits depend on its row and weights alone
};

LinearWay linear_way(int64_t rows, const Weight& weight, LinearOrder order = LinearOrder::quickest);

}  // namespace fulmar
