// An identifier of a set of weights: a hash of their shapes and a sample of their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/weight.h"

namespace fulmar {

// Equal for equal numbers, stored as f32, f16 or bf16 and in any layout. Two 64-bit sums: enough to tell
// models apart, no protection against forged weights.
class Fingerprint {
 public:
  void add(std::string_view text);
  // Samples a few runs of the matrix, so that little of a mapped file is read.
  void add(std::string_view name, const HostMatrix& matrix);
  std::string hex() const;  // 32 digits

 private:
  void add_bytes(const void* data, size_t bytes);

  uint64_t first_ = 0xcbf29ce484222325u;
  uint64_t second_ = 0x9e3779b97f4a7c15u;
};

}  // namespace fulmar
