#include "model/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "tensor/convert.h"

namespace fulmar {

void Fingerprint::add_bytes(const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; i++) {
    first_ = (first_ ^ at[i]) * 0x100000001b3u;
    second_ = std::rotl(second_ ^ at[i], 23) * 0xbf58476d1ce4e5b9u;
  }
}

void Fingerprint::add(std::string_view text) {
  const uint64_t length = text.size();
  add_bytes(&length, sizeof(length));
  add_bytes(text.data(), text.size());
}

void Fingerprint::add(std::string_view name, const HostMatrix& matrix) {
  constexpr int64_t kRun = 16;      // numbers at the beginning and in the middle
  constexpr size_t kBlockRun = 64;  // or bytes, of quantised matrices
  add(name);
  const int64_t shape[] = {matrix.rows, matrix.cols};
  add_bytes(shape, sizeof(shape));
  const bool coded = is_block(matrix.dtype) || matrix.scales != nullptr;
  if (coded) add(name_of(matrix.dtype));  // another model than the one it was made from
  for (const int64_t row : {int64_t{0}, matrix.rows / 2}) {
    if (coded) {
      const size_t row_bytes = bytes_for(matrix.dtype, matrix.cols);
      add_bytes(matrix.data + static_cast<size_t>(row) * row_bytes, std::min(kBlockRun, row_bytes));
      if (matrix.scales == nullptr) continue;
      // the same codes with other scales are other weights
      const int64_t groups = matrix.cols / matrix.group;
      add_bytes(matrix.scales + row * groups, static_cast<size_t>(std::min(kRun, groups)) * sizeof(float));
      continue;
    }
    for (int64_t j = 0; j < std::min(kRun, matrix.cols); j++) {
      const int64_t index = row * matrix.row_stride + j * matrix.col_stride;
      float value = 0;
      to_f32(matrix.dtype, matrix.data + static_cast<size_t>(index) * size_of(matrix.dtype), {&value, 1});
      add_bytes(&value, sizeof(value));
    }
  }
}

std::string Fingerprint::hex() const {
  char text[33];
  std::snprintf(text, sizeof(text), "%016llx%016llx", static_cast<unsigned long long>(first_),
                static_cast<unsigned long long>(second_));
  return text;
}

}  // namespace fulmar
