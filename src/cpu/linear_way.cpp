// The rule.
#include "cpu/linear_way.h"

#include <limits>

#include "cpu/linear_amx.h"
#include "cpu/linear_sparse.h"

namespace fulmar {

int64_t most_coded_rows(const LinearMode& mode) {
  // From codes the order is the same for any number of rows.
  if (mode.order == LinearOrder::fixed) return std::numeric_limits<int64_t>::max();
  // Three products of bytes cost less than one of f32 there.
  if (mode.has_vnni) return std::numeric_limits<int64_t>::max();
  switch (mode.activations) {
    case CodedActivations::bits22:
      return 4;
    case CodedActivations::bits15:
      return 8;
    case CodedActivations::bits8:
      break;
  }
  return std::numeric_limits<int64_t>::max();
}

namespace {

// Up to kFewRows rows are bound by memory, and zeros save their fraction of it. With more rows
// linear_sparse.h is quicker from these fractions of zeros on: below least_decoded_rows() rows, and from
// there.
constexpr int64_t kFewRows = 4;
constexpr double kLeastZerosOfSome = 0.85, kLeastZerosOfMany = 0.72;

}  // namespace

bool goes_by_amx(const Weight& weight, const LinearMode& mode) { return mode.has_amx && suits_amx(weight); }

int64_t most_dot_rows(const Weight& weight, const LinearMode& mode) {
  if (!goes_by_amx(weight, mode)) return kMostDotRows;
  // bf16 weights are operands as stored; f16 is split for every block of rows, and its
  // five products are slower for few.
  constexpr int64_t kOfBf16 = 16, kOfF16 = 28;
  if (weight.dtype == DType::bf16) return kOfBf16;
  return mode.activations == CodedActivations::bits22 ? kMostDotRows : kOfF16;
}

LinearWay linear_way(int64_t rows, const Weight& weight, const LinearMode& mode, double zeros) {
  if (weight.by_input()) {
    if (mode.order == LinearOrder::fixed || rows <= kFewRows) return LinearWay::sparse;
    if (goes_by_amx(weight, mode) && rows > most_dot_rows(weight, mode)) {
      return zeros < kLeastZerosOfMany ? LinearWay::panels : LinearWay::sparse;
    }
    const bool dense =
        zeros < (rows < least_decoded_rows(weight.dtype) ? kLeastZerosOfSome : kLeastZerosOfMany);
    return dense ? LinearWay::decoded : LinearWay::sparse;
  }
  if (weight.layout == WeightLayout::tiles)
    return rows <= most_coded_rows(mode) ? LinearWay::coded : LinearWay::decoded;
  if (mode.order == LinearOrder::fixed || rows <= most_dot_rows(weight, mode)) return LinearWay::dot;
  return LinearWay::panels;
}

}  // namespace fulmar
