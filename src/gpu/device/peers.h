// A group of ranks on GPUs with peer access, as kernels see it: addresses of each rank's flags and buffers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

constexpr int kMostPeers = 8;
constexpr int kPeerBlocks = 256;  // of each all-reduce; block i synchronises with block i of the other ranks

// What kernels and host tell each other, in mapped host memory.
struct PeerNews {
  volatile uint32_t missing;  // 1 + the rank that timed out; 0: none
  volatile uint32_t closed;   // nonzero: stop waiting
};

// Flags in a rank's own memory: flag [meeting][block][from] counts the signals of rank `from`'s block.
// `offered` (block 0 alone) counts the addends that a rank has made readable.
enum class Meeting : uint8_t { pushed, summed, gathered, offered };
constexpr int kMeetings = 4;
constexpr size_t kPeerFlags = size_t{kMeetings} * kPeerBlocks * kMostPeers;
// A rank's own counters: all-reduces so far (one per block, all equal), then signals of each meeting. For
// `offered`, counter 0 counts addends and counter 1 the blocks that have begun the current pull.
constexpr size_t kPeerCounts = size_t{1 + kMeetings} * kPeerBlocks;

// A rank's view of its group. Arrays are indexed by rank; capacities are in 16-byte words.
struct Peers {
  int rank = 0, size = 0;
  int64_t capacity = 0;           // of a tensor that one launch reduces
  int64_t flagged_capacity = 0;   // the same for the flagged protocol
  uint4* inbox[kMostPeers] = {};  // [2][from][capacity]: data pushed by others
  uint4* mail[kMostPeers] = {};   // [2][from][2][flagged_capacity]: data with flags, pushed by others
  uint4* sums[kMostPeers] = {};   // [2][capacity]: sums computed by others
  uint32_t* flags[kMostPeers] = {};
  uint32_t* counts = nullptr;  // [1 + kMeetings][kPeerBlocks], own
  PeerNews* news = nullptr;    // own
  uint64_t timeout = 0;        // ticks()
};

// One-shot all-reduce of two ranks by pull: the kernel that needs the sum reads the other rank's addend by
// peer loads, so the all-reduce is fused into it (peer_wait.h). Addend buffers alternate
// (Collective::register_addends): a rank that begins a pull has finished the one before, so that pull's
// buffer is free again.
struct PeerPull {
  Peers peers;
  const void* theirs = nullptr;  // the other rank's addend, same size
  bool offers = true;            // true for the first kernel of a pull
};

}  // namespace fulmar::gpu
