// All-reduce and gather of ranks on GPUs that reach each other's memory: the kernels of one rank, which push
// what they have into the others' memory and wait there for what comes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

constexpr int kMostPeers = 8;
constexpr int kPeerBlocks = 64;  // of every launch: blocks of a number meet those of the same number

// In memory of the host that its GPU reads and writes by itself.
struct PeerNews {
  volatile uint32_t missing;  // 1 + the rank that did not come in time; 0: none
  volatile uint32_t closed;   // not 0: nobody is waited for any more
};

// Flags of a rank, in its own memory: flag [meeting][block][from] is how often that rank's block has come.
enum class Meeting : uint8_t { pushed, summed, gathered };
constexpr int kMeetings = 3;
constexpr size_t kPeerFlags = size_t{kMeetings} * kPeerBlocks * kMostPeers;

// What the kernels of one rank know of its group.
struct Peers {
  int rank = 0, size = 0;
  int64_t capacity = 0;           // 16-byte words of a tensor that one launch adds up
  uint4* inbox[kMostPeers] = {};  // of every rank: [2][from][capacity], what others push
  uint4* sums[kMostPeers] = {};   // of every rank: [2][capacity], sums that others have found
  uint32_t* flags[kMostPeers] = {};
  uint32_t* calls = nullptr;  // [2][kPeerBlocks], own: sums and gathers so far
  PeerNews* news = nullptr;   // own
  uint64_t timeout = 0;       // ticks()
};

// x += the sum over all ranks of `partial`: at most `capacity` words without gaps, x f32. One-shot, every
// rank adding up all of it; two-shot, every rank a part, whose sum in the type of `partial` goes to the
// others.
void peer_add_sum(const Queue&, const Peers&, const Tensor& partial, const Tensor& x, bool two_shot);
// `part`, f32, to columns [first, first + n) of `whole` on rank 0, which waits for all ranks; `whole` [rows,
// V] is in rank 0's memory, whoever calls.
void peer_gather(const Queue&, const Peers&, const Tensor& part, int64_t first, const Tensor& whole);

}  // namespace fulmar::gpu
