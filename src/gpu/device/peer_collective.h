// Collective operations of GPUs of one host that reach each other's memory: kernels that can be recorded,
// with flags between the devices. The host waits for nobody.
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

// One rank's end of such a group.
class PeerCollective : public Collective {
 public:
  // How a kernel reads the other rank's addend where it lies; nothing where this one's lies in no registered
  // buffer or goes another way. Behind each kernel that may wait for the other rank, `launched` is called.
  virtual std::optional<PeerPull> pull_of(const Tensor& addend) = 0;
  virtual void launched() = 0;
};

// None where two ranks are on one device, where kernels of one that wait could keep the other's from running,
// where one cannot reach another's memory, for none at all and for more than kMostPeers. Sums go the way that
// is given; nothing: the one that suits each (sum_way).
Result<std::vector<std::unique_ptr<Collective>>> open_peer_collectives(std::span<const PeerEnd> ends,
                                                                       const CollectiveOptions& options,
                                                                       std::optional<SumWay> way = {});
// Memory of one device in such a group.
size_t peer_collective_bytes(int64_t size, const CollectiveOptions& options);

}  // namespace fulmar::gpu
