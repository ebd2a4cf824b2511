#include "model/slice.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "ops/survey.h"
#include "tensor/format.h"

namespace fulmar {

namespace {

Status check_divides(int64_t width, int64_t count, const char* what) {
  if (width % count == 0) return {};
  return Error{ErrorKind::invalid, "the model has " + std::to_string(width) + " " + what +
                                       ", which cannot be divided equally among " + std::to_string(count) +
                                       " tensor-parallel devices"};
}

// Returns how many columns of a slice share a scale: the matrix's group if the slice is whole groups, all
// columns if it is within one group; 0: neither.
int64_t group_of(const HostMatrix& matrix, const Part& part) {
  if (matrix.scales == nullptr) return 0;
  if (part.first % matrix.group == 0 && part.count % matrix.group == 0) return matrix.group;
  const bool within = part.first / matrix.group == (part.first + part.count - 1) / matrix.group;
  return within ? part.count : 0;
}

}  // namespace

Part part_of(const Slice& slice, int64_t width) {
  const int64_t each = width / slice.count;
  return {each * slice.index, each};
}

Part vocabulary_part(const Slice& slice, int64_t vocab) {
  const int64_t length = survey_slice_length(vocab), slices = (vocab + length - 1) / length;
  const auto begin = [&](int64_t index) { return std::min(vocab, slices * index / slice.count * length); };
  const int64_t first = begin(slice.index);
  return {first, begin(slice.index + 1) - first};
}

Status check_slices(const ModelConfig& config, int64_t count) {
  FULMAR_TRY(check_divides(config.n_head, count, "heads"));
  FULMAR_TRY(check_divides(config.n_ffn, count, "feed-forward channels"));
  if (vocabulary_part({0, count}, config.vocab).count > 0) return {};
  return Error{ErrorKind::invalid, "the model has " + std::to_string(config.vocab) +
                                       " tokens; wanted four for each of " + std::to_string(count) +
                                       " tensor-parallel devices"};
}

HostMatrix rows_of(const HostMatrix& matrix, const Part& part) {
  HostMatrix rows = matrix;
  rows.rows = part.count;
  rows.data += is_float(matrix.dtype)
                   ? static_cast<size_t>(part.first * matrix.row_stride) * size_of(matrix.dtype)
                   : static_cast<size_t>(part.first) * bytes_for(matrix.dtype, matrix.cols);
  if (matrix.scales != nullptr) rows.scales += part.first * (matrix.cols / matrix.group);
  return rows;
}

Result<Columns> columns_of(const HostMatrix& matrix, const Part& part, const std::string& name) {
  HostMatrix columns = matrix;
  columns.cols = part.count;
  if (is_float(matrix.dtype) && !matrix.row_major()) {
    columns.data += static_cast<size_t>(part.first * matrix.col_stride) * size_of(matrix.dtype);
    return Columns{columns, false};
  }
  const int64_t block = format_of(matrix.dtype).block, group = group_of(matrix, part);
  const bool whole_blocks = part.first % block == 0 && part.count % block == 0;
  if (!whole_blocks || (matrix.scales != nullptr && group == 0)) {
    return Error{ErrorKind::unsupported,
                 "tensor '" + name + "' holds " + std::string(name_of(matrix.dtype)) + " in groups of " +
                     std::to_string(std::max(block, matrix.group)) + "; a slice of " +
                     std::to_string(part.count) + " of its columns does not consist of whole ones"};
  }
  columns.group = group;
  columns.data = nullptr;
  columns.row_stride = part.count;
  return Columns{columns, true};
}

std::vector<std::byte> copy_columns(const HostMatrix& matrix, const Part& part) {
  const size_t row = bytes_for(matrix.dtype, matrix.cols), kept = bytes_for(matrix.dtype, part.count);
  const size_t skipped = bytes_for(matrix.dtype, part.first);
  std::vector<std::byte> copy(static_cast<size_t>(matrix.rows) * kept);
  for (size_t i = 0; i < static_cast<size_t>(matrix.rows); i++) {
    std::memcpy(copy.data() + i * kept, matrix.data + i * row + skipped, kept);
  }
  return copy;
}

std::vector<float> copy_scales(const HostMatrix& matrix, const Part& part) {
  std::vector<float> scales;
  if (matrix.scales == nullptr) return scales;
  const int64_t groups = matrix.cols / matrix.group, kept = part.count / group_of(matrix, part);
  for (int64_t i = 0; i < matrix.rows; i++) {
    const float* from = matrix.scales + i * groups + part.first / matrix.group;
    scales.insert(scales.end(), from, from + kept);
  }
  return scales;
}

StateLayout layout_of(const StateLayout& whole, int64_t layers, const Slice& slice) {
  StateLayout layout = whole;
  layout.n_layer = layers;
  layout.n_head = whole.n_head / slice.count;
  return layout;
}

}  // namespace fulmar
