// Quantised matrices in the order in which the CPU multiplies them: tiles of eight outputs with interleaved
// blocks, so that one vector holds four codes of each output. Pure functions over bytes; not a bit changes,
// and the size stays the same, but for zeros where the outputs are no multiple of eight.
//
// A block of a tile has the format's fields in their order. A field consists of units of two or four bytes;
// each unit of all eight outputs comes before the next unit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

constexpr int64_t kInterleavedOutputs = 8;

// Returns whether the matrix can be interleaved: by its format, and rows of whole blocks.
bool can_interleave(const HostMatrix& matrix);

// Returns the bytes of the interleaved codes, and the number of scales beside them.
size_t interleaved_bytes(const HostMatrix& matrix);
int64_t interleaved_scales(const HostMatrix& matrix);

// Interleaves a matrix; `codes` and `scales` have that much room. scales: [tile][group][8].
void interleave(const HostMatrix& matrix, std::byte* codes, float* scales);

}  // namespace fulmar
