// Decoders of packed matrices: of fragments a thread takes the 32 neighbouring weights that are a lane's of
// one output, of transposed ones eight neighbouring outputs of an input. In f32, rounded once.
#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/item_grid.h"
#include "gpu/device/ptx.h"
#include "gpu/products/dequantise.h"
#include "gpu/products/packed_load.h"

namespace fulmar::gpu {

namespace {

constexpr int kUnpackThreads = 256, kUnpackOuts = 8;

struct ScaleAndLeast {
  float scale, least;
};

__device__ __forceinline__ float half_bits(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ __forceinline__ ScaleAndLeast affine_of(uint32_t bytes, uint32_t super) {
  return {half_bits(super) * static_cast<float>(bytes & 255),
          half_bits(super >> 16) * static_cast<float>(bytes >> 8 & 255)};
}

// levels: the 16 of the format, in shared memory.
template <CodeKind kKind>
__device__ __forceinline__ float value_of(uint32_t code, const ScaleAndLeast& by, const float* levels) {
  if constexpr (kKind == CodeKind::bytes) {
    return by.scale * static_cast<float>(static_cast<int>(code) - 128);
  } else if constexpr (kKind == CodeKind::float8) {
    return by.scale * (half_bits((code & 0x80) << 8 | (code & 0x7f) << 7) * kFloat8Lift);
  } else if constexpr (kKind == CodeKind::nibbles) {
    return by.scale * static_cast<float>(static_cast<int>(code) - 8);
  } else if constexpr (kKind == CodeKind::levels) {
    return by.scale * levels[code];
  } else if constexpr (kKind == CodeKind::six) {
    return by.scale * static_cast<float>(static_cast<int>(code) - 32);
  } else {
    return __fsub_rn(__fmul_rn(by.scale, static_cast<float>(code)), by.least);
  }
}

__device__ __forceinline__ void fill_levels(float (&levels)[16], bool nf4) {
  if (threadIdx.x < 16) levels[threadIdx.x] = level_of(static_cast<int>(threadIdx.x), nf4);
  __syncthreads();
}

template <class T>
__device__ __forceinline__ void store8(T* to, const float (&x)[8]) {
  uint4 words;
  words.x = pack_floats<T>(x[0], x[1]), words.y = pack_floats<T>(x[2], x[3]);
  words.z = pack_floats<T>(x[4], x[5]), words.w = pack_floats<T>(x[6], x[7]);
  *reinterpret_cast<uint4*>(to) = words;
}

// Threads: [tiles][pieces][half][lanes].
template <class T, CodeKind kKind>
__global__ void __launch_bounds__(kUnpackThreads)
    unpack_fragments_kernel(const PackedMatrix m, int first_tile, int64_t items, T* target) {
  __shared__ float levels[16];
  if constexpr (kKind == CodeKind::levels) fill_levels(levels, m.nf4);
  pdl_launch_next();
  constexpr int kVectors = PackedPiece<kKind>::kVectors;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kUnpackThreads + threadIdx.x;
  const int lane = threadIdx.x % kWarp, half = static_cast<int>(item / kWarp % 2);
  const int64_t of_chunk = item / (2 * kWarp), piece = of_chunk % m.pieces, tile = of_chunk / m.pieces;
  const int64_t block = first_tile * static_cast<int64_t>(m.pieces) + of_chunk;
  const int64_t row = tile * kPackedOuts + half * 8 + lane / 4, k = piece * kPackedInputs + lane % 4 * 32;
  const bool inside = item < items && first_tile * kPackedOuts + row < m.outs;
  uint4 code[kVectors];
  uint2 upper{};
  ScaleAndLeast by{}, by_second{};  // q6_k: of the second 16 inputs
  if (inside) {
    const auto* codes = reinterpret_cast<const uint4*>(m.codes) + block * (2 * kVectors * kWarp) +
                        half * kVectors * kWarp + lane;
#pragma unroll
    for (int v = 0; v < kVectors; v++) code[v] = __ldcs(codes + v * kWarp);
    if constexpr (has_supers(kKind)) {
      const int64_t super = (first_tile + tile) * (m.pieces / 2) + piece / 2;
      const uint32_t bytes = m.factors[block * kWarp + lane] >> half * 16,
                     both = m.supers[super * kPackedOuts + half * 8 + lane / 4];
      by = affine_of(bytes, both);
      if constexpr (kKind == CodeKind::six) {
        by.scale = half_bits(both) * static_cast<float>(static_cast<int8_t>(bytes));
        by_second.scale = half_bits(both) * static_cast<float>(static_cast<int8_t>(bytes >> 8));
        upper = __ldcs(m.upper + block * (2 * kWarp) + half * kWarp + lane);
      }
    } else if (m.factors != nullptr) {
      by.scale = half_bits(m.factors[block * kWarp + lane] >> half * 16);
    } else {
      const int64_t group = m.groups == 1 ? 0 : k >> m.group_shift;
      by.scale = m.scales[(first_tile * kPackedOuts + row) * m.groups + group];
    }
  }
  pdl_wait();  // the products in front may still read what is decoded into
  if (!inside) return;
  T* to = target + row * m.pieces * kPackedInputs + k;
  const auto* words = reinterpret_cast<const uint32_t*>(code);
#pragma unroll
  for (int i = 0; i < 4; i++) {  // eight weights each
    float x[8];
#pragma unroll
    for (int e = 0; e < 8; e++) {
      uint32_t one;
      if constexpr (bits_of(kKind) == 8) {
        one = words[2 * i + e / 4] >> e % 4 * 8 & 255;
      } else if constexpr (kKind == CodeKind::levels) {
        one = words[i] >> 4 * e & 15;
      } else {
        one = words[i] >> 4 * (e % 2 * 4 + e / 2) & 15;
      }
      if constexpr (kKind == CodeKind::six) {
        one |= ((i < 2 ? upper.x : upper.y) >> (e % 2 * 16 + i % 2 * 8 + e / 2 * 2) & 3) << 4;
      }
      x[e] = value_of<kKind>(one, kKind == CodeKind::six && i >= 2 ? by_second : by, levels);
    }
    store8(to + 8 * i, x);
  }
}

// Threads: [in][outs / 8].
template <class T, CodeKind kKind>
__global__ void __launch_bounds__(kUnpackThreads)
    unpack_transposed_kernel(const PackedMatrix m, int first, int outs, int64_t items, T* target) {
  __shared__ float levels[16];
  if constexpr (kKind == CodeKind::levels) fill_levels(levels, m.nf4);
  pdl_launch_next();
  pdl_wait();
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kUnpackThreads + threadIdx.x;
  if (item >= items) return;
  const int each = outs / kUnpackOuts;
  const int64_t k = item / each;
  const int out = first + static_cast<int>(item % each) * kUnpackOuts;
  constexpr int kBits = bits_of(kKind), kWords = kBits / 4;
  const auto* codes = reinterpret_cast<const uint32_t*>(m.codes) + (k * m.outs + out) * kBits / 32;
  uint32_t word[kWords];
#pragma unroll
  for (int w = 0; w < kWords; w++) word[w] = __ldcs(codes + w);
  float x[kUnpackOuts];
#pragma unroll
  for (int o = 0; o < kUnpackOuts; o++) {
    ScaleAndLeast by{};
    if (kKind == CodeKind::affine || (kKind != CodeKind::float8 && m.factors != nullptr)) {
      const uint32_t factor =
          reinterpret_cast<const uint16_t*>(m.factors)[k / kPackedGroup * m.outs + out + o];
      if constexpr (kKind == CodeKind::affine) {
        by = affine_of(factor, m.supers[k / kPackedSuper * m.outs + out + o]);
      } else {
        by.scale = half_bits(factor);
      }
    } else {
      by.scale = m.scales[(m.groups == 1 ? 0 : k >> m.group_shift) * m.outs + out + o];
    }
    x[o] = value_of<kKind>(word[o * kBits / 32] >> o * kBits % 32 & ((1 << kBits) - 1), by, levels);
  }
  store8(target + item * kUnpackOuts, x);
}

}  // namespace

void unpack(const Queue& queue, const Weight& weight, int64_t first, int64_t outs, void* target, DType to) {
  FULMAR_CHECK(first % kPackedOuts == 0 && (outs % kPackedOuts == 0 || first + outs == weight.out));
  const PackedMatrix matrix = packed_matrix_of(weight);
  with_activation(to, [&](auto sample) {
    using T = decltype(sample);
    with_code_kind(packed_kind(weight), [&](auto kind) {
      if (weight.transposed) {
        FULMAR_CHECK(kind() != CodeKind::six);
        const int64_t items = weight.in * (outs / kUnpackOuts);
        return launch(queue, unpack_transposed_kernel<T, kind()>, item_grid(items, kUnpackThreads),
                      dim3(kUnpackThreads), 0, matrix, static_cast<int>(first), static_cast<int>(outs), items,
                      static_cast<T*>(target));
      }
      const int64_t tiles = (outs + kPackedOuts - 1) / kPackedOuts;
      const int64_t items = tiles * matrix.pieces * 2 * kWarp;
      launch(queue, unpack_fragments_kernel<T, kind()>, item_grid(items, kUnpackThreads),
             dim3(kUnpackThreads), 0, matrix, static_cast<int>(first / kPackedOuts), items,
             static_cast<T*>(target));
    });
  });
}

}  // namespace fulmar::gpu
