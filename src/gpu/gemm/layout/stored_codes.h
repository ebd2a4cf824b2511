// Reads single codes and scales of matrices in the order of files, for kernels that reorder them.
#pragma once

#include "gpu/device/vendor.h"
#include "tensor/format.h"

namespace fulmar::gpu {

// Rows without gaps, in one of the formats that layout/packed.h lists.
struct StoredRows {
  const uint8_t* data;
  int64_t row_bytes;
  DType dtype;

  __device__ const uint8_t* block(int64_t row, int64_t k, int size, int bytes) const {
    return data + row * row_bytes + k / size * bytes;
  }
  __device__ static uint32_t nibble(uint32_t byte, bool high) { return high ? byte >> 4 : byte & 15; }

  // Returns the code of input k, unsigned.
  __device__ uint32_t code(int64_t row, int64_t k) const {
    const int e = static_cast<int>(k % 32);
    switch (dtype) {
      case DType::q8_0:
        return block(row, k, 32, 34)[2 + e] ^ 0x80u;
      case DType::i8:
        return data[row * row_bytes + k] ^ 0x80u;
      case DType::f8_e4m3:
        return data[row * row_bytes + k];
      case DType::q4_0:
      case DType::iq4_nl:
        return nibble(block(row, k, 32, 18)[2 + e % 16], e >= 16);
      case DType::i4:
        return nibble(data[row * row_bytes + k / 2], k % 2 != 0) ^ 8u;
      case DType::nf4:
        return nibble(data[row * row_bytes + k / 2], k % 2 == 0);
      case DType::q4_k:
        return nibble(block(row, k, 256, 144)[16 + k % 256 / 64 * 32 + e], k % 64 >= 32);
      case DType::q6_k: {  // the lower four bits
        const int j = static_cast<int>(k % 128 / 32);
        return nibble(block(row, k, 256, 210)[k % 256 / 128 * 64 + j % 2 * 32 + e], j >= 2);
      }
      default:
        return 0;
    }
  }

  // Returns q6_k's upper two bits.
  __device__ uint32_t upper(int64_t row, int64_t k) const {
    const int shift = static_cast<int>(2 * (k % 128 / 32));
    return block(row, k, 256, 210)[128 + k % 256 / 128 * 32 + k % 32] >> shift & 3;
  }

  // Returns the bits of the f16 scale of the 32 inputs from k on; for q4_k scale and minimum, a byte each;
  // for q6_k the two scales.
  __device__ uint32_t factor(int64_t row, int64_t k) const {
    if (dtype == DType::q6_k) {
      const uint8_t* scale = block(row, k, 256, 210) + 192 + k % 256 / 16;
      return scale[0] | scale[1] << 8;
    }
    if (dtype != DType::q4_k) {
      const uint8_t* from = block(row, k, 32, dtype == DType::q8_0 ? 34 : 18);
      return from[0] | from[1] << 8;
    }
    const uint8_t* scales = block(row, k, 256, 144) + 4;
    const int i = static_cast<int>(k % 256 / 32), low = i % 4;
    const uint32_t one = scales[low], two = scales[low + 4], three = scales[low + 8];
    const uint32_t scale = i < 4 ? one & 63 : (three & 15) | one >> 6 << 4;
    const uint32_t least = i < 4 ? two & 63 : three >> 4 | two >> 6 << 4;
    return scale | least << 8;
  }

  // Returns q4_k's d and dmin, or q6_k's d.
  __device__ uint32_t super(int64_t row, int64_t k) const {
    if (dtype == DType::q6_k) {
      const uint8_t* d = block(row, k, 256, 210) + 208;
      return d[0] | d[1] << 8;
    }
    const uint8_t* from = block(row, k, 256, 144);
    return from[0] | from[1] << 8 | from[2] << 16 | static_cast<uint32_t>(from[3]) << 24;
  }
};

}  // namespace fulmar::gpu
