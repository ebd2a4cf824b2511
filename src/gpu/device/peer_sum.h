// All-reduce and gather of ranks on GPUs that reach each other's memory: the kernels of one rank, which push
// what they have into the others' memory and wait there for what comes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device/device.h"
#include "gpu/device/sum_way.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

constexpr int kMostPeers = 8;
constexpr int kPeerBlocks = 256;  // of every launch: blocks of a number meet those of the same number

// In memory of the host that its GPU reads and writes by itself.
struct PeerNews {
  volatile uint32_t missing;  // 1 + the rank that did not come in time; 0: none
  volatile uint32_t closed;   // not 0: nobody is waited for any more
};

// Flags of a rank, in its own memory: flag [meeting][block][from] is how often that rank's block has come.
enum class Meeting : uint8_t { pushed, summed, gathered };
constexpr int kMeetings = 3;
constexpr size_t kPeerFlags = size_t{kMeetings} * kPeerBlocks * kMostPeers;
// What a rank's blocks count for themselves: sums so far, the same for all of them, and meetings of each
// kind.
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

// x += the sum over all ranks of `partial`: at most `capacity` words without gaps, x f32. Two-shot sums are
// rounded to the type of `partial`.
void peer_add_sum(const Queue&, const Peers&, const Tensor& partial, const Tensor& x, SumWay way);
// x += sum, both without gaps, x f32: what a sum by the library leaves to be done.
void add_library_sum(const Queue&, const Tensor& sum, const Tensor& x);
// x [1, C] += the sum over all ranks and rows of `parts`, f32 [n, C], where C suits (suits_add_parts).
bool suits_add_parts(const Peers&, const Tensor& parts);
void peer_add_parts(const Queue&, const Peers&, const Tensor& parts, const Tensor& x);
// `part`, f32, to columns [first, first + n) of `whole` on rank 0, which waits for all ranks; `whole` [rows,
// V] is in rank 0's memory, whoever calls.
void peer_gather(const Queue&, const Peers&, const Tensor& part, int64_t first, const Tensor& whole);

}  // namespace fulmar::gpu
