// The size of head that fused kernels know.
#pragma once

namespace fulmar::gpu {

constexpr int kHeadSize = 64;  // channels

}  // namespace fulmar::gpu
