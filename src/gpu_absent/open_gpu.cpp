// Stands in for the GPU backend in builds without it.
#include "ops/device.h"

namespace fulmar {

const char* gpu_kind() { return ""; }

std::vector<GpuInfo> list_gpus() { return {}; }

Result<std::unique_ptr<Ops>> open_gpu(const DeviceOptions&) {
  return Error{ErrorKind::unsupported, "this build has no GPU support; use --device cpu"};
}

Result<std::vector<std::unique_ptr<Collective>>> open_sums(std::span<Ops* const>, const CollectiveOptions&,
                                                           SumWay) {
  return std::vector<std::unique_ptr<Collective>>();
}

}  // namespace fulmar
