// A channel through host memory: for devices of any kind, and for those that cannot reach each other's
// memory.
#pragma once

#include <cstddef>
#include <memory>

#include "ops/channel.h"
#include "ops/ops.h"

namespace fulmar {

// For messages of at most so many bytes. A send waits for the sending device, a receive copies to the other.
std::unique_ptr<Channel> make_host_channel(Ops& sender, Ops& receiver, size_t bytes);

}  // namespace fulmar
