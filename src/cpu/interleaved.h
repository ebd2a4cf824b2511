// Quantised matrices in the order in which the CPU multiplies them: tiles of eight outputs, whose blocks lie
// interleaved, so that one vector takes four codes of each output. Pure functions over bytes; not a bit
// changes, and a matrix takes what it took, but for zeros where its outputs are no multiple of eight.
//
// A block of a tile has the format's fields in their order, and of each field its units of two or four bytes,
// every unit of all eight outputs after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/weight.h"

namespace fulmar {

constexpr int64_t kInterleavedOutputs = 8;

// True for formats that are interleaved, and rows of whole blocks of them.
bool can_interleave(const HostMatrix& matrix);

// Bytes of the codes, and the number of scales beside them, once they are interleaved.
size_t interleaved_bytes(const HostMatrix& matrix);
int64_t interleaved_scales(const HostMatrix& matrix);

// `codes` and `scales` have room for those; scales lie [tile][group][8].
void interleave(const HostMatrix& matrix, std::byte* codes, float* scales);

}  // namespace fulmar
