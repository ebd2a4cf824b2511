// Tensor parallelism: the part of every layer that a rank has. Pure functions over sizes and host matrices.
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

// The range [first, first + count) of some width.
struct Part {
  int64_t first = 0;
  int64_t count = 0;

  bool operator==(const Part&) const = default;
};
// Returns a slice's part of a width that divides evenly.
Part part_of(const Slice& slice, int64_t width);
// Returns a slice's part of a vocabulary: whole slices of its survey (ops/survey.h), as equal as possible.
Part vocabulary_part(const Slice& slice, int64_t vocab);

// How a matrix [out, in] is divided among ranks: not at all; by rows (each rank has some outputs, or some of
// the vocabulary); by columns, so that the ranks' products add up to the whole.
enum class Cut : uint8_t { none, outputs, vocabulary, inputs };

// Fails (invalid), with both numbers, unless heads and feed-forward width divide evenly.
Status check_slices(const ModelConfig& config, int64_t count);

// Returns rows of a matrix, in place.
HostMatrix rows_of(const HostMatrix& matrix, const Part& part);
// columns_of returns columns of a matrix: in place in plain formats that are not row-major; otherwise
// `copied` is set and copy_columns must copy them. Fails (unsupported) unless they are whole blocks and
// groups, or within one group; `name` is for the error.
struct Columns {
  HostMatrix matrix;  // if copied: without its data
  bool copied = false;
};
Result<Columns> columns_of(const HostMatrix& matrix, const Part& part, const std::string& name);
std::vector<std::byte> copy_columns(const HostMatrix& matrix, const Part& part);
std::vector<float> copy_scales(const HostMatrix& matrix, const Part& part);

// Returns the layout of a rank's states: some layers and one slice of the heads.
StateLayout layout_of(const StateLayout& whole, int64_t layers, const Slice& slice);

}  // namespace fulmar
