// The size of head that fused kernels know, and how they share out its state.
#pragma once

namespace fulmar::gpu {

constexpr int kHeadSize = 64;                    // channels
constexpr int kHeadTiles = kHeadSize / 16;       // of 16 channels, the rows of one matrix instruction
constexpr int kLanesPerRow = 8;                  // threads that share a value channel's row of the state
constexpr int kKeys = kHeadSize / kLanesPerRow;  // key channels of a thread

}  // namespace fulmar::gpu
