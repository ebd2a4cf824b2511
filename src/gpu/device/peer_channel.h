// A point-to-point channel between two GPUs of one host (or two streams of one GPU): the sender writes into
// the receiver's memory, and events order the streams. The host never waits.
#pragma once

#include <memory>

#include "base/result.h"
#include "gpu/device/vendor.h"
#include "ops/channel.h"

namespace fulmar::gpu {

struct ChannelEnd {
  int device = 0;
  StreamHandle stream = nullptr;  // outlives the channel
};

// Enables access from device `from` to the memory of device `to`; false where the hardware has none.
Result<bool> enable_peer_access(int from, int to);

// Opens a channel for messages of at most `bytes` bytes; null where the sender has no access to the
// receiver's memory.
Result<std::unique_ptr<Channel>> open_peer_channel(const ChannelEnd& sender, const ChannelEnd& receiver,
                                                   size_t bytes);

}  // namespace fulmar::gpu
