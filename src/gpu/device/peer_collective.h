// Collectives among GPUs of one host with peer access: kernels that can be captured into graphs and that
// synchronise by flags in each other's memory. The host never waits.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/peer_channel.h"
#include "gpu/device/peers.h"
#include "ops/collective.h"
#include "ops/sum_way.h"

namespace fulmar::gpu {

struct PeerEnd {
  int device = 0;
  Queue queue;  // outlives the group
  std::string name;
};

// One rank's end of a peer group.
class PeerCollective : public Collective {
 public:
  // Returns how a kernel reads the other rank's addend in place (pull), or nothing where `addend` lies in no
  // registered buffer or another algorithm is used. Call `launched` after launching each kernel that may wait
  // for the other rank.
  virtual std::optional<PeerPull> pull_of(const Tensor& addend) = 0;
  virtual void launched() = 0;
};

// Opens one end per rank. Empty for no rank or more than kMostPeers, without peer access between all, and
// where two ranks share a device, on which one's waiting kernel could keep the other's from running. `way`
// fixes the all-reduce algorithm; by default sum_way chooses by size.
Result<std::vector<std::unique_ptr<Collective>>> open_peer_collectives(std::span<const PeerEnd> ends,
                                                                       const CollectiveOptions& options,
                                                                       std::optional<SumWay> way = {});
// Returns the bytes of device memory that a rank of such a group takes.
size_t peer_collective_bytes(int64_t size, const CollectiveOptions& options);

}  // namespace fulmar::gpu
