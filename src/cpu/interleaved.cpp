#include "cpu/interleaved.h"

#include <cstring>

#include "tensor/format.h"

namespace fulmar {
namespace {

constexpr int64_t kShare = 32;  // weights of formats without blocks that count as a block

// Weights of a row that are stored together, and their bytes.
struct StoredBlock {
  int64_t weights = 0, bytes = 0;
};
StoredBlock stored_block(DType dtype) {
  const Format& format = format_of(dtype);
  if (format.block >= kShare) return {format.block, format.bytes};
  return {kShare, static_cast<int64_t>(bytes_for(dtype, kShare))};
}

bool is_interleaved(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i4 || format_of(dtype).block >= kShare;
}

int64_t tiles_of(const HostMatrix& matrix) {
  return (matrix.rows + kInterleavedOutputs - 1) / kInterleavedOutputs;
}

// Copies one block of one output; kInterleavedOutputs times a unit's size lie between its units.
void spread_block(const Format& format, int64_t bytes, const std::byte* from, int64_t output, std::byte* to) {
  for (int64_t at = 0; at < bytes;) {
    const int64_t unit = at == format.factors[0] || at == format.factors[1] ? 2 : 4;
    std::memcpy(to + at * kInterleavedOutputs + output * unit, from + at, static_cast<size_t>(unit));
    at += unit;
  }
}

}  // namespace

bool can_interleave(const HostMatrix& matrix) {
  if (!is_interleaved(matrix.dtype) || !matrix.row_major()) return false;
  if (matrix.scales != nullptr && matrix.group % kShare != 0) return false;
  return matrix.cols % stored_block(matrix.dtype).weights == 0;
}

size_t interleaved_bytes(const HostMatrix& matrix) {
  return bytes_for(matrix.dtype, tiles_of(matrix) * kInterleavedOutputs * matrix.cols);
}

int64_t interleaved_scales(const HostMatrix& matrix) {
  return matrix.scales == nullptr ? 0 : tiles_of(matrix) * kInterleavedOutputs * (matrix.cols / matrix.group);
}

void interleave(const HostMatrix& matrix, std::byte* codes, float* scales) {
  const StoredBlock block = stored_block(matrix.dtype);
  const Format& format = format_of(matrix.dtype);
  const int64_t blocks = matrix.cols / block.weights, row_bytes = blocks * block.bytes;
  if (matrix.rows % kInterleavedOutputs != 0) {
    std::memset(codes + (tiles_of(matrix) - 1) * kInterleavedOutputs * row_bytes, 0,
                static_cast<size_t>(kInterleavedOutputs * row_bytes));
  }
  for (int64_t row = 0; row < matrix.rows; row++) {
    const int64_t tile = row / kInterleavedOutputs, output = row % kInterleavedOutputs;
    for (int64_t b = 0; b < blocks; b++) {
      spread_block(format, block.bytes, matrix.data + row * row_bytes + b * block.bytes, output,
                   codes + (tile * row_bytes + b * block.bytes) * kInterleavedOutputs);
    }
  }
  if (matrix.scales == nullptr) return;
  const int64_t groups = matrix.cols / matrix.group;
  std::memset(static_cast<void*>(scales), 0, static_cast<size_t>(interleaved_scales(matrix)) * sizeof(float));
  for (int64_t row = 0; row < matrix.rows; row++) {
    float* const to =
        scales + row / kInterleavedOutputs * groups * kInterleavedOutputs + row % kInterleavedOutputs;
    for (int64_t g = 0; g < groups; g++) to[g * kInterleavedOutputs] = matrix.scales[row * groups + g];
  }
}

}  // namespace fulmar
