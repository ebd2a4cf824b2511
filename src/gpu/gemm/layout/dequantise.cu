// Decoders of stored formats: a thread decodes eight neighbouring weights of a row. Products and sums are
// rounded one by one, as in the reference decoders.
#include <iterator>

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/layout/dequantise.h"
#include "gpu/gemm/layout/packed.h"
#include "gpu/gemm/layout/stored_codes.h"
#include "tensor/blocks32.h"
#include "tensor/scaled_codes.h"

namespace fulmar::gpu {

namespace {

constexpr int kDecodeThreads = 256, kDecoded = 8;  // weights of a thread

struct DecodedRows {
  StoredRows rows;
  const float* scales;
  int64_t group, groups;  // inputs of a scale; scales of a row
  float levels[16];       // of formats with a table of levels
};

__device__ __forceinline__ float half_at(const uint8_t* from) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(from[0] | from[1] << 8)));
}
__device__ __forceinline__ float half_of(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ __forceinline__ float affine(float scale, int code, float least) {
  return __fsub_rn(__fmul_rn(scale, static_cast<float>(code)), least);
}

__device__ __forceinline__ float float8_of(uint32_t code) {
  const uint32_t half = (code & 0x80) << 8 | (code & 0x7f) << 7;
  return half_of(half) * 256.0f;
}

// Decodes a weight of blocks of 32 with a scale, perhaps a minimum, perhaps fifth bits.
template <DType kDType>
__device__ float even_block(const uint8_t* block, int e) {
  constexpr bool kMinimum = kDType == DType::q4_1 || kDType == DType::q5_1;
  constexpr bool kFifth = kDType == DType::q5_0 || kDType == DType::q5_1;
  static_assert(kFifth || kDType == DType::q4_0 || kDType == DType::q4_1, "a format without a decoder");
  constexpr int kFifthAt = kMinimum ? 4 : 2, kCodes = kFifthAt + (kFifth ? 4 : 0);
  int code = static_cast<int>(StoredRows::nibble(block[kCodes + e % 16], e >= 16));
  if (kFifth) code |= (block[kFifthAt + e / 8] >> e % 8 & 1) << 4;
  if (kMinimum) return __fadd_rn(__fmul_rn(half_at(block), static_cast<float>(code)), half_at(block + 2));
  return half_at(block) * static_cast<float>(code - (kFifth ? 16 : 8));
}

template <DType kDType>
__device__ float super_block(const uint8_t* b, int e) {
  const int h = e / 128, j = e % 128 / 32, l = e % 32;
  if constexpr (kDType == DType::q2_k) {
    const int scale = b[e / 16];
    return affine(half_at(b + 80) * static_cast<float>(scale & 15), b[16 + 32 * h + l] >> 2 * j & 3,
                  half_at(b + 82) * static_cast<float>(scale >> 4));
  } else if constexpr (kDType == DType::q3_k) {
    const int high = b[l] >> (4 * h + j) & 1, code = (b[32 + 32 * h + l] >> 2 * j & 3) + 4 * high - 4;
    const int i = e / 16, low = i < 8 ? b[96 + i] & 15 : b[88 + i] >> 4;
    const int scale = (low | (b[104 + i % 4] >> 2 * (i / 4) & 3) << 4) - 32;
    return half_at(b + 108) * static_cast<float>(scale) * static_cast<float>(code);
  } else if constexpr (kDType == DType::q5_k) {
    const StoredRows scales{b, 0, DType::q4_k};  // whose scales have the same layout
    const uint32_t factor = scales.factor(0, e);
    const int p = e / 64, upper = e % 64 / 32;
    const int code = static_cast<int>(StoredRows::nibble(b[48 + 32 * p + l], upper != 0)) |
                     (b[16 + l] >> (2 * p + upper) & 1) << 4;
    return affine(half_at(b) * static_cast<float>(factor & 255), code,
                  half_at(b + 2) * static_cast<float>(factor >> 8));
  } else {
    static_assert(kDType == DType::q6_k);
    const int low = static_cast<int>(StoredRows::nibble(b[64 * h + 32 * (j % 2) + l], j >= 2));
    const int code = (low | (b[128 + 32 * h + l] >> 2 * j & 3) << 4) - 32;
    const int scale = static_cast<int8_t>(b[192 + e / 16]);
    return half_at(b + 208) * static_cast<float>(scale) * static_cast<float>(code);
  }
}

template <DType kDType>
__device__ __forceinline__ float decoded(const DecodedRows& a, int64_t row, int64_t k) {
  constexpr CodeKind kKind = code_kind_of(kDType);
  constexpr int kCodesOfBlock = static_cast<int>(format_of(kDType).block),
                kBytesOfBlock = static_cast<int>(format_of(kDType).bytes);
  if constexpr (kKind == CodeKind::none || kKind == CodeKind::six) {
    const uint8_t* block = a.rows.block(row, k, kCodesOfBlock, kBytesOfBlock);
    if constexpr (kCodesOfBlock == 32) {
      return even_block<kDType>(block, static_cast<int>(k % 32));
    } else {
      return super_block<kDType>(block, static_cast<int>(k % 256));
    }
  } else {
    const auto code = static_cast<int>(a.rows.code(row, k));
    if constexpr (kKind == CodeKind::affine) {
      const uint32_t factor = a.rows.factor(row, k), super = a.rows.super(row, k);
      return affine(half_of(super) * static_cast<float>(factor & 255), code,
                    half_of(super >> 16) * static_cast<float>(factor >> 8));
    }
    const float scale =
        is_block(kDType) ? half_of(a.rows.factor(row, k)) : a.scales[row * a.groups + k / a.group];
    switch (kKind) {
      case CodeKind::bytes:
        return scale * static_cast<float>(code - 128);
      case CodeKind::float8:
        return scale * float8_of(static_cast<uint32_t>(code));
      case CodeKind::nibbles:
        return scale * static_cast<float>(code - 8);
      default:  // levels; no other kinds come here
        return scale * a.levels[code];
    }
  }
}

template <class T, DType kDType>
__global__ void __launch_bounds__(kDecodeThreads)
    dequantise_kernel(const __grid_constant__ DecodedRows from, int64_t first, int64_t rows, int64_t in,
                      T* target) {
  pdl_launch_next();
  pdl_wait();  // earlier products may still read the target
  const int64_t item = (static_cast<int64_t>(blockIdx.x) * kDecodeThreads + threadIdx.x) * kDecoded;
  if (item >= rows * in) return;
  const int64_t row = first + item / in, k = item % in;
  Float4 x[2];
#pragma unroll
  for (int i = 0; i < kDecoded; i++) x[i / 4].x[i % 4] = decoded<kDType>(from, row, k + i);
  store4(target + item, x[0]);
  store4(target + item + 4, x[1]);
}

// Calls f(integral_constant) with the format, which is one of the quantised ones of tensor/format.h.
template <class F>
void with_stored_format(DType dtype, F&& f) {
  const auto is = [&]<size_t kAt>(std::integral_constant<size_t, kAt>) {
    constexpr DType kDType = kFormats[kAt].dtype;
    if constexpr (is_block(kDType) || is_scaled(kDType)) {
      if (dtype != kDType) return false;
      f(std::integral_constant<DType, kDType>{});
      return true;
    }
    return false;
  };
  const bool known = [&]<size_t... kAt>(std::index_sequence<kAt...>) {
    return (is(std::integral_constant<size_t, kAt>{}) || ...);
  }
  (std::make_index_sequence<std::size(kFormats)>{});
  FULMAR_CHECK(known, "a format without a decoder");
}

}  // namespace

void dequantise(const Queue& queue, const Weight& weight, int64_t first, int64_t outs, void* target,
                DType to) {
  FULMAR_CHECK(first >= 0 && first + outs <= weight.out);
  if (is_packed(weight)) return unpack(queue, weight, first, outs, target, to);
  FULMAR_CHECK(!weight.by_input() && weight.in % kDecoded == 0);
  const bool scaled = weight.scales != nullptr;
  FULMAR_CHECK(is_block(weight.dtype) || (scaled && weight.group > 0 && weight.in % weight.group == 0));
  DecodedRows from{{static_cast<const uint8_t*>(weight.data),
                    static_cast<int64_t>(bytes_for(weight.dtype, weight.in)), weight.dtype},
                   weight.scales,
                   weight.group,
                   scaled ? weight.in / weight.group : 0,
                   {}};
  for (size_t i = 0; i < std::size(from.levels); i++) {
    from.levels[i] = weight.dtype == DType::nf4 ? kNf4Levels[i] : static_cast<float>(kIq4Levels[i]);
  }
  constexpr int64_t kBlockDecoded = int64_t{kDecodeThreads} * kDecoded;
  const dim3 grid(static_cast<unsigned>((outs * weight.in + kBlockDecoded - 1) / kBlockDecoded));
  with_activation(to, [&](auto sample) {
    using T = decltype(sample);
    with_stored_format(weight.dtype, [&](auto dtype) {
      launch(queue, dequantise_kernel<T, dtype()>, grid, dim3(kDecodeThreads), 0, from, first, outs,
             weight.in, static_cast<T*>(target));
    });
  });
}

}  // namespace fulmar::gpu
