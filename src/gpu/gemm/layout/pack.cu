// Packs quantised matrices: every thread makes one word, or one scale, of the packed
// layout. Runs once, at load.
#include "base/check.h"
#include "gpu/device/item_grid.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/layout/pack.h"
#include "gpu/gemm/layout/stored_codes.h"

namespace fulmar::gpu {

namespace {

constexpr int kPackThreads = 256;

struct Packing {
  StoredRows from;  // row 0 is row `first` of the matrix
  int64_t first, rows, out, in;
  int bits;
  bool table;  // codes are indices of levels
  uint32_t* codes;
  uint16_t* factors;  // null: none
  uint32_t* supers;   // null: none
  uint32_t* upper;    // null: none
};

// Returns the bit at which nibble e of a word of eight begins.
__device__ int nibble_at(int e, bool table) { return table ? 4 * e : 4 * (e % 2 * 4 + e / 2); }

// Returns a word of `count` codes, the e-th of them that of input(e).
template <class Input>
__device__ uint32_t packed_word(const Packing& a, int64_t row, int count, Input&& input) {
  if (row >= a.rows) return 0;  // outputs that pad the last tile
  uint32_t word = 0;
  for (int e = 0; e < count; e++) {
    word |= a.from.code(row, input(e)) << (a.bits == 8 ? 8 * e : nibble_at(e, a.table));
  }
  return word;
}

// Packs fragments. Items: words of codes, then factors, then supers, then upper bits, of the chunk's tiles.
__global__ void __launch_bounds__(kPackThreads) pack_fragments_kernel(const Packing a, int64_t tiles) {
  pdl_wait();
  const int64_t pieces = a.in / kPackedInputs, first_tile = a.first / kPackedOuts;
  const int64_t words = tiles * pieces * a.bits * 64;  // of 16 * 128 codes
  const int64_t factors = a.factors != nullptr ? tiles * pieces * 64 : 0;
  const int64_t supers = a.supers != nullptr ? tiles * (a.in / kPackedSuper) * kPackedOuts : 0;
  int64_t at = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  if (at < words) {
    const int vectors = a.bits / 2;  // of two outputs
    const int word = static_cast<int>(at % 4), lane = static_cast<int>(at / 4 % 32);
    const int vector = static_cast<int>(at / 128 % vectors);
    const int64_t block = at / 128 / vectors, piece = block % pieces, tile = block / pieces;
    const int half = vectors / 2, each = 32 / a.bits;
    const int64_t row = tile * kPackedOuts + lane / 4 + (vector >= half ? 8 : 0);
    const int code = vector % half * 16 + word * each;
    a.codes[first_tile * pieces * a.bits * 64 + at] = packed_word(
        a, row, each, [&](int e) { return piece * kPackedInputs + fragment_input(lane, code + e); });
    return;
  }
  at -= words;
  if (at < factors) {
    const int64_t block = at / 64, piece = block % pieces, tile = block / pieces;
    const int64_t row = tile * kPackedOuts + at / 8 % 8 + at / 4 % 2 * 8;
    const int64_t k = piece * kPackedInputs + at % kPieceGroups * kPackedGroup;
    a.factors[first_tile * pieces * 64 + at] =
        row < a.rows ? static_cast<uint16_t>(a.from.factor(row, k)) : uint16_t{0};
    return;
  }
  at -= factors;
  if (at >= supers) {
    at -= supers;
    if (a.upper == nullptr || at >= tiles * pieces * 128) return;
    const int word = static_cast<int>(at % 2), lane = static_cast<int>(at / 2 % 32);
    const int64_t block = at / 128, piece = block % pieces, tile = block / pieces;
    const int64_t row = tile * kPackedOuts + lane / 4 + at / 64 % 2 * 8;
    uint32_t bits = 0;
    for (int e = 0; e < 16 && row < a.rows; e++) {
      const int64_t k = piece * kPackedInputs + fragment_input(lane, word * 16 + e);
      bits |= a.from.upper(row, k) << (e % 2 * 16 + e / 2 * 2);
    }
    a.upper[first_tile * pieces * 128 + at] = bits;
    return;
  }
  const int64_t blocks = a.in / kPackedSuper;
  const int64_t row = at / kPackedOuts / blocks * kPackedOuts + at % kPackedOuts;
  a.supers[first_tile * blocks * kPackedOuts + at] =
      row < a.rows ? a.from.super(row, at / kPackedOuts % blocks * kPackedSuper) : 0;
}

// Packs transposed: rows of the chunk become columns; neighbouring threads take neighbouring inputs.
__global__ void __launch_bounds__(kPackThreads) pack_transposed_kernel(const Packing a) {
  pdl_wait();
  const int each = 32 / a.bits;
  const int64_t words = a.rows / each * a.in;
  const int64_t factors = a.factors != nullptr ? a.rows * (a.in / kPackedGroup) : 0;
  const int64_t supers = a.supers != nullptr ? a.rows * (a.in / kPackedSuper) : 0;
  int64_t at = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  if (at < words) {
    const int64_t k = at % a.in, row = at / a.in * each;
    uint32_t word = 0;
    for (int e = 0; e < each; e++) word |= a.from.code(row + e, k) << a.bits * e;
    a.codes[(k * a.out + a.first + row) / each] = word;
    return;
  }
  at -= words;
  if (at < factors) {
    const int64_t groups = a.in / kPackedGroup, row = at / groups, group = at % groups;
    a.factors[group * a.out + a.first + row] =
        static_cast<uint16_t>(a.from.factor(row, group * kPackedGroup));
    return;
  }
  at -= factors;
  if (at >= supers) return;
  const int64_t blocks = a.in / kPackedSuper, row = at / blocks, block = at % blocks;
  a.supers[block * a.out + a.first + row] = a.from.super(row, block * kPackedSuper);
}

}  // namespace

void pack_rows(const Queue& queue, const void* source, int64_t first, int64_t rows, const Weight& weight) {
  FULMAR_CHECK(is_packed(weight) && first % kPackedOuts == 0 && first + rows <= weight.out);
  FULMAR_CHECK(rows % kPackedOuts == 0 || first + rows == weight.out);
  const CodeKind kind = packed_kind(weight);
  const PackedParts parts = packed_parts(weight.dtype, weight.out, weight.in, weight.by_input());
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(weight.data));
  const Packing packing{
      {static_cast<const uint8_t*>(source), static_cast<int64_t>(bytes_for(weight.dtype, weight.in)),
       weight.dtype},
      first,
      rows,
      weight.out,
      weight.in,
      bits_of(kind),
      kind == CodeKind::levels,
      reinterpret_cast<uint32_t*>(bytes),
      is_block(weight.dtype) ? reinterpret_cast<uint16_t*>(bytes + parts.factors) : nullptr,
      parts.upper > parts.supers ? reinterpret_cast<uint32_t*>(bytes + parts.supers) : nullptr,
      kind == CodeKind::six ? reinterpret_cast<uint32_t*>(bytes + parts.upper) : nullptr};
  const int64_t padded = (rows + kPackedOuts - 1) / kPackedOuts * kPackedOuts;
  const int64_t items = padded * weight.in * bits_of(kind) / 32 + padded * (weight.in / kPackedGroup) +
                        padded * (weight.in / kPackedSuper + 1) + padded * weight.in / 16;
  if (weight.by_input()) {
    launch(queue, pack_transposed_kernel, item_grid(items, kPackThreads), dim3(kPackThreads), 0, packing);
  } else {
    launch(queue, pack_fragments_kernel, item_grid(items, kPackThreads), dim3(kPackThreads), 0, packing,
           padded / kPackedOuts);
  }
}

}  // namespace fulmar::gpu
