// The ranks of a group on GPUs that reach each other's memory, as kernels see them: where each rank's flags
// and buffers lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/vendor.h"

namespace fulmar::gpu {

constexpr int kMostPeers = 8;
constexpr int kPeerBlocks = 256;  // of every sum's launch: blocks of a number meet those of the same number

// In memory of the host that its GPU reads and writes by itself.
struct PeerNews {
  volatile uint32_t missing;  // 1 + the rank that did not come in time; 0: none
  volatile uint32_t closed;   // not 0: nobody is waited for any more
};

// Flags of a rank, in its own memory: flag [meeting][block][from] is how often that rank's block has come.
// `offered`, of block 0 alone: how many addends that rank has let the others read where they lie.
enum class Meeting : uint8_t { pushed, summed, gathered, offered };
constexpr int kMeetings = 4;
constexpr size_t kPeerFlags = size_t{kMeetings} * kPeerBlocks * kMostPeers;
// What a rank's blocks count for themselves: sums so far, the same for all of them, and meetings of each
// kind. Of `offered` number 0 counts addends, number 1 the blocks that have read the other's.
constexpr size_t kPeerCounts = size_t{1 + kMeetings} * kPeerBlocks;

// What the kernels of one rank know of its group.
struct Peers {
  int rank = 0, size = 0;
  int64_t capacity = 0;           // 16-byte words of a tensor that one launch adds up
  int64_t flagged_capacity = 0;   // the same where every number has a flag
  uint4* inbox[kMostPeers] = {};  // of every rank: [2][from][capacity], what others push
  uint4* mail[kMostPeers] = {};   // of every rank: [2][from][2][flagged_capacity], numbers beside flags
  uint4* sums[kMostPeers] = {};   // of every rank: [2][capacity], sums that others have found
  uint32_t* flags[kMostPeers] = {};
  uint32_t* counts = nullptr;  // [1 + kMeetings][kPeerBlocks], own
  PeerNews* news = nullptr;    // own
  uint64_t timeout = 0;        // ticks()
};

// One-shot all-reduce of two ranks by pull: the kernel that wants the sum of both addends reads the other
// rank's where it lies (peer loads), so that the sum is part of what comes behind it (peer_wait.h).
// Buffers of addends change by turns (Collective::register_addends): whoever begins a pull has read all of
// the one before, so its rank's buffer of that time is free again.
struct PeerPull {
  Peers peers;
  const void* theirs = nullptr;  // the other rank's addend, as large as this rank's
  bool offers = true;            // of the kernels of one pull the first
};

}  // namespace fulmar::gpu
