// One step of a product with a transposed weight [K, outs] of which only some inputs are kept: a warp
// multiplies 16 kept inputs by 64 outputs for tiles of eight rows, weights in the order of 16-byte loads.
#pragma once

#include "gpu/device/element.h"
#include "gpu/device/fragment.h"

namespace fulmar::gpu {

constexpr int kKeptStep = 16;                     // kept inputs of one matrix instruction
constexpr int kKeptOuts = 64, kKeptLaneOuts = 8;  // outputs of a warp, of a lane's load

// Adds a step's products. Lane 4g + q has the outputs 8g to 8g + 7 of the kept inputs 4q to 4q + 3
// (`from`), paired up here, and of each tile t their values in row 8t + g (`x`). sum[j][t] has the outputs
// 8g + 2j and 8g + 2j + 1 (as rows g and g + 8 of an accumulator) for the rows 8t + 2q and 8t + 2q + 1.
template <class T, int kTiles>
__device__ __forceinline__ void multiply_kept_step(const uint4 (&from)[4], const uint2 (&x)[kTiles],
                                                   float (&sum)[4][kTiles][4]) {
  const uint32_t word[4][4] = {{from[0].x, from[0].y, from[0].z, from[0].w},
                               {from[1].x, from[1].y, from[1].z, from[1].w},
                               {from[2].x, from[2].y, from[2].z, from[2].w},
                               {from[3].x, from[3].y, from[3].z, from[3].w}};
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const uint32_t a0 = __byte_perm(word[0][j], word[1][j], 0x5410);
    const uint32_t a1 = __byte_perm(word[0][j], word[1][j], 0x7632);
    const uint32_t a2 = __byte_perm(word[2][j], word[3][j], 0x5410);
    const uint32_t a3 = __byte_perm(word[2][j], word[3][j], 0x7632);
#pragma unroll
    for (int t = 0; t < kTiles; t++) mma<T>(sum[j][t], a0, a1, a2, a3, x[t].x, x[t].y);
  }
}

}  // namespace fulmar::gpu
