// Flags between corresponding blocks of a group's ranks: signal and wait.
#pragma once

#include "gpu/device/peers.h"
#include "gpu/device/system_word.h"

namespace fulmar::gpu {

// Ends a wait on time-out or when the host closes the group; later waits end at once.
struct Patience {
  static constexpr uint32_t kBetweenLooks = 1024;
  uint32_t polls = 0;
  uint64_t begin = 0;

  __device__ bool ends(const Peers& p, int from) {
    if (++polls % kBetweenLooks != 0) return false;
    if (begin == 0) begin = ticks();
    if (p.news->closed != 0 || p.news->missing != 0) return true;
    if (ticks() - begin <= p.timeout) return false;
    p.news->missing = static_cast<uint32_t>(from) + 1;
    return true;
  }
};

__device__ inline uint32_t* flag_of(const Peers& p, int owner, Meeting meeting, unsigned block, int from) {
  return p.flags[owner] + (static_cast<size_t>(meeting) * kPeerBlocks + block) * kMostPeers + from;
}
__device__ inline uint32_t& count_of(const Peers& p, Meeting meeting, unsigned block) {
  return p.counts[(1 + static_cast<size_t>(meeting)) * kPeerBlocks + block];
}

// Waits until rank `other` has signalled `times` times. Call from one thread.
__device__ inline void wait_for(const Peers& p, Meeting meeting, unsigned block, int other, uint32_t times) {
  const uint32_t* const flag = flag_of(p, p.rank, meeting, block, other);
  Patience patience;
  while (static_cast<int32_t>(load_acquire_system(flag) - times) < 0 && !patience.ends(p, other)) {
  }
}

// Offers this rank's addend and waits for the other's. Every block of each kernel of a pull calls it, with
// all threads, after pdl_wait; the last kernel also calls end_pull.
__device__ inline void begin_pull(const PeerPull& pull) {
  const Peers& p = pull.peers;
  const int other = 1 - p.rank;
  if (threadIdx.x == 0) {
    const uint32_t times = count_of(p, Meeting::offered, 0) + 1;
    if (pull.offers && blockIdx.x == 0) publish(flag_of(p, other, Meeting::offered, 0, p.rank), times);
    wait_for(p, Meeting::offered, 0, other, times);
  }
  __syncthreads();
}
// Counts the pull once all `blocks` blocks have called. Call from one thread of each.
__device__ inline void end_pull(const PeerPull& pull, uint32_t blocks) {
  uint32_t& begun = count_of(pull.peers, Meeting::offered, 1);
  if (atomicAdd(&begun, 1) != blocks - 1) return;
  begun = 0;
  count_of(pull.peers, Meeting::offered, 0)++;
}

}  // namespace fulmar::gpu
