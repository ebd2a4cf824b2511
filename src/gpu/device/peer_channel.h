// A peer-to-peer channel between two GPUs of one host, or between two queues of one: the sender writes into
// the receiver's memory, and events order the two queues. The host waits for neither.
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

// Lets work of one device read and write the memory of another; false where it cannot.
Result<bool> enable_peer_access(int from, int to);

// For messages of at most so many bytes. Null where the sender cannot reach the receiver's memory.
Result<std::unique_ptr<Channel>> open_peer_channel(const ChannelEnd& sender, const ChannelEnd& receiver,
                                                   size_t bytes);

}  // namespace fulmar::gpu
