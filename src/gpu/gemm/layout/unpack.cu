// Decoders of packed matrices in f32, rounded once: a thread decodes the 32 weights that a lane has of one
// output (fragments), or eight neighbouring outputs of an input (transposed).
#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/item_grid.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/layout/dequantise.h"
#include "gpu/gemm/layout/packed_load.h"

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

// Returns a code's number. levels: the 16 of the format, in shared memory.
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

// Reads the scales of each 16 inputs of a piece for output `out` of its tile; `block`
// counts all pieces of all tiles.
template <CodeKind kKind>
__device__ __forceinline__ void read_scales(ScaleAndLeast (&by)[2 * kPieceGroups], const PackedMatrix& m,
                                            int64_t block, int64_t tile, int64_t piece, int half, int g) {
  const uint2* factors = reinterpret_cast<const uint2*>(m.factors + block * kWarp) + g * 2 + half;
  uint32_t super = 0;
  if constexpr (has_supers(kKind)) {
    super = m.supers[(tile * (m.pieces / 2) + piece / 2) * kPackedOuts + half * 8 + g];
  }
#pragma unroll
  for (int j = 0; j < kPieceGroups; j++) {
    ScaleAndLeast &first = by[2 * j], &second = by[2 * j + 1];
    if (has_factors<kKind>(m)) {
      const uint32_t bits = (j < 2 ? factors->x : factors->y) >> j % 2 * 16;
      if constexpr (kKind == CodeKind::affine) {
        first = affine_of(bits, super);
      } else if constexpr (kKind == CodeKind::six) {
        first.scale = half_bits(super) * static_cast<float>(static_cast<int8_t>(bits));
        second.scale = half_bits(super) * static_cast<float>(static_cast<int8_t>(bits >> 8));
        continue;
      } else {
        first.scale = half_bits(bits);
      }
    } else {
      const int64_t k = piece * kPackedInputs + j * kPackedGroup,
                    group = m.groups == 1 ? 0 : k >> m.group_shift;
      first.scale = m.scales[(tile * kPackedOuts + half * 8 + g) * m.groups + group];
    }
    second = first;
  }
}

// Returns the i-th code of the p-th four of a lane's 32.
template <CodeKind kKind, int kVectors>
__device__ __forceinline__ uint32_t code_at(const uint4 (&code)[kVectors], const uint2& upper, int p, int i) {
  const int e = p % 2 * 4 + i;
  uint32_t one;
  if constexpr (bits_of(kKind) == 8) {
    one = word_at(code, p) >> i * 8 & 255;
  } else if constexpr (kKind == CodeKind::levels) {
    one = word_at(code, p / 2) >> 4 * e & 15;
  } else {
    one = word_at(code, p / 2) >> 4 * (e % 2 * 4 + e / 2) & 15;
  }
  if constexpr (kKind == CodeKind::six) {
    one |= ((p < 4 ? upper.x : upper.y) >> (e % 2 * 16 + p / 2 % 2 * 8 + e / 2 * 2) & 3) << 4;
  }
  return one;
}

// Decodes fragments. Threads: [tiles][pieces][half][lanes]. A warp has eight outputs of a piece, which pass
// through shared memory since a lane's inputs are not neighbours.
template <class T, CodeKind kKind>
__global__ void __launch_bounds__(kUnpackThreads)
    unpack_fragments_kernel(const PackedMatrix m, int first_tile, int64_t items, T* target) {
  constexpr int kRowWords = kPackedInputs / 2, kStride = kRowWords + 4;  // spreads the rows over the banks
  __shared__ float levels[16];
  __shared__ __align__(16) uint32_t rows[kUnpackThreads / kWarp][8 * kStride];
  if constexpr (kKind == CodeKind::levels) fill_levels(levels, m.nf4);
  pdl_launch_next();
  constexpr int kVectors = PackedPiece<kKind>::kVectors;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kUnpackThreads + threadIdx.x;
  const int lane = threadIdx.x % kWarp, g = lane / 4, q = lane % 4;
  const int half = static_cast<int>(item / kWarp % 2);
  const int64_t of_chunk = item / (2 * kWarp), piece = of_chunk % m.pieces, tile = of_chunk / m.pieces;
  const int64_t block = first_tile * static_cast<int64_t>(m.pieces) + of_chunk;
  const int64_t first_row = tile * kPackedOuts + half * 8;
  const bool inside = item < items && first_tile * kPackedOuts + first_row + g < m.outs;
  uint4 code[kVectors];
  uint2 upper{};
  ScaleAndLeast by[2 * kPieceGroups]{};  // of 16 inputs
  if (inside) {
    const auto* codes = reinterpret_cast<const uint4*>(m.codes) + block * (2 * kVectors * kWarp) +
                        half * kVectors * kWarp + lane;
#pragma unroll
    for (int v = 0; v < kVectors; v++) code[v] = __ldcs(codes + v * kWarp);
    if constexpr (kKind == CodeKind::six) upper = __ldcs(m.upper + block * (2 * kWarp) + half * kWarp + lane);
    read_scales<kKind>(by, m, block, first_tile + tile, piece, half, g);
  }
  uint32_t* own = rows[threadIdx.x / kWarp];
#pragma unroll
  for (int p = 0; p < kPackedInputs / 16; p++) {  // four weights each
    float x[4];
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = value_of<kKind>(code_at<kKind>(code, upper, p, i), by[p], levels);
    own[g * kStride + p * 8 + q] = pack_floats<T>(x[0], x[1]);
    own[g * kStride + p * 8 + 4 + q] = pack_floats<T>(x[2], x[3]);
  }
  __syncwarp();
  pdl_wait();  // earlier products may still read the target
  if (item >= items) return;
  const int64_t in = static_cast<int64_t>(m.pieces) * kPackedInputs;
  T* to = target + first_row * in + piece * kPackedInputs;
#pragma unroll
  for (int i = 0; i < 4; i++) {  // sixteen lanes for a row
    const int row = i * 2 + lane / 16, vector = lane % 16;
    if (first_tile * kPackedOuts + first_row + row >= m.outs) continue;
    *reinterpret_cast<uint4*>(to + row * in + vector * 8) =
        *reinterpret_cast<const uint4*>(&own[row * kStride + vector * 4]);
  }
}

// Decodes transposed codes. Threads: [in][outs / 8].
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
      if (weight.by_input()) {
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
