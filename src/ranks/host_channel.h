// A channel through host memory, for any devices and for those without peer access.
#pragma once

#include <cstddef>
#include <memory>

#include "ops/channel.h"
#include "ops/ops.h"

namespace fulmar {

// Makes a channel for messages of up to `bytes` bytes. send() waits for the sending device; receive() copies
// to the other.
std::unique_ptr<Channel> make_host_channel(Ops& sender, Ops& receiver, size_t bytes);

}  // namespace fulmar
