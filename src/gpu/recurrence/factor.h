// An operand of the products between a chunk's rows.
#pragma once

#include "gpu/device/vendor.h"
#include "gpu/math/head_size.h"
#include "gpu/recurrence/recurrence.h"

namespace fulmar::gpu {

using Factor = Half[kChunk][kHeadSize + 8];  // padded against bank conflicts

}  // namespace fulmar::gpu
