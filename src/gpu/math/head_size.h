// The head size that fused kernels support, and how threads divide a head's state.
#pragma once

namespace fulmar::gpu {

constexpr int kHeadSize = 64;                    // channels
constexpr int kHeadTiles = kHeadSize / 16;       // tiles of 16 channels, the rows of an mma
constexpr int kLanesPerRow = 8;                  // threads that share a value channel's row of the state
constexpr int kKeys = kHeadSize / kLanesPerRow;  // key channels of a thread

}  // namespace fulmar::gpu
