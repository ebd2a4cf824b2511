// The product that both fake GEMM libraries compute, in host memory: BLAS's d = op(a) * op(b), columns first,
// of bf16, with sums in f32.
#pragma once

#include <cstdint>
#include <cstring>

namespace fulmar::fake {

struct FakeMatrix {
  const void* data;
  int64_t stride;
  bool transposed;

  float at(int64_t row, int64_t column) const {
    const int64_t place = transposed ? row * stride + column : column * stride + row;
    const auto bits = static_cast<uint32_t>(static_cast<const uint16_t*>(data)[place]) << 16;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  }
};

inline void multiply(int64_t m, int64_t n, int64_t k, const FakeMatrix& a, const FakeMatrix& b, void* d,
                     int64_t stride, bool wide) {
  for (int64_t column = 0; column < n; column++) {
    for (int64_t row = 0; row < m; row++) {
      float sum = 0;
      for (int64_t inner = 0; inner < k; inner++) sum += a.at(row, inner) * b.at(inner, column);
      const int64_t place = column * stride + row;
      uint32_t bits;
      std::memcpy(&bits, &sum, sizeof(bits));
      if (wide) {
        static_cast<float*>(d)[place] = sum;
      } else {
        static_cast<uint16_t*>(d)[place] = static_cast<uint16_t>(bits >> 16);
      }
    }
  }
}

}  // namespace fulmar::fake
