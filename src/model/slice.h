// Tensor parallelism: which part of every layer a rank has. Pure functions over sizes and host matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "files/model_config.h"
#include "ops/state.h"
#include "tensor/weight.h"

namespace fulmar {

// One of `count` slices of the heads, of the feed-forward width and of the vocabulary. Norms, mixes, token
// shifts and the embedding are on every rank.
struct Slice {
  int64_t index = 0;
  int64_t count = 1;

  bool whole() const { return count == 1; }
  bool operator==(const Slice&) const = default;
};

// [first, first + count) of some width.
struct Part {
  int64_t first = 0;
  int64_t count = 0;

  bool operator==(const Part&) const = default;
};
// A slice's part of a width that divides into so many equal ones.
Part part_of(const Slice& slice, int64_t width);
// A slice's part of a vocabulary: whole slices of its survey (ops/survey.h), as equal as those allow.
Part vocabulary_part(const Slice& slice, int64_t vocab);

// How a matrix [out, in] is divided among ranks: not at all; by its rows, each rank having some outputs, or
// some of the vocabulary; by its columns, so that what the ranks make adds up to the product.
enum class Cut : uint8_t { none, outputs, vocabulary, inputs };

// Invalid, with both numbers, where heads or feed-forward width do not divide into so many equal slices.
Status check_slices(const ModelConfig& config, int64_t count);

// Rows of a matrix, where they lie.
HostMatrix rows_of(const HostMatrix& matrix, const Part& part);
// Columns of a matrix. They stay where they lie in plain formats that are not row-major; else they have to be
// copied, by copy_columns, to lie like rows of their own: `copied` says so. Fails (unsupported) where they
// are not whole blocks and whole groups, or within one group; `name` is for the error.
struct Columns {
  HostMatrix matrix;  // where copied: without its data
  bool copied = false;
};
Result<Columns> columns_of(const HostMatrix& matrix, const Part& part, const std::string& name);
std::vector<std::byte> copy_columns(const HostMatrix& matrix, const Part& part);
std::vector<float> copy_scales(const HostMatrix& matrix, const Part& part);

// The states of some layers and one slice of the heads, as a rank keeps them.
StateLayout layout_of(const StateLayout& whole, int64_t layers, const Slice& slice);

}  // namespace fulmar
