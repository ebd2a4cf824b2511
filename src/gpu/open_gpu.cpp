// Lists the GPUs and opens one of them (ops/device.h).
#include "gpu/device/import.h"
#include "gpu/gpu_ops.h"

namespace fulmar {

namespace {

Status check_float8(const gpu::DeviceFacts& facts, const DeviceOptions& options) {
  if (!options.float8_inputs) return {};
  const auto refused = [](const std::string& why) {
    return Error{ErrorKind::unsupported,
                 "fp8 activations are for the matrix units of compute capability 9.0; " + why};
  };
  if (!facts.hopper) return refused(facts.name + " is " + facts.target);
  if (!options.panels || !options.matrix_units) return refused("panels or matrix units are switched off");
  if (options.deterministic) return refused("a deterministic step goes without them");
  return {};
}

}  // namespace

const char* gpu_kind() { return gpu::kVendorDevice; }

std::vector<GpuInfo> list_gpus() {
  std::vector<GpuInfo> list;
  for (int index = 0;; index++) {
    const auto facts = gpu::device_facts(index);
    if (!facts.ok()) return list;
    list.push_back({index, facts->name, facts->memory_total, facts->multiprocessors});
  }
}

Result<std::unique_ptr<Ops>> open_gpu(const DeviceOptions& options) {
  if (options.activation != DType::f16 && options.activation != DType::bf16) {
    return Error{ErrorKind::invalid,
                 "the GPU computes in f16 or bf16, not in " + std::string(name_of(options.activation))};
  }
  FULMAR_ASSIGN(gpu::DeviceFacts facts, gpu::device_facts(options.index));
  FULMAR_TRY(check_float8(facts, options));
  facts.matrix_units = facts.matrix_units && options.matrix_units;
  const auto unsuited = [&](const char* wanted) {
    return Error{ErrorKind::unsupported, facts.name + " is " + facts.target + "; " + wanted};
  };
  if (facts.architecture < gpu::kLeastArchitecture) return unsuited("wanted compute capability 8.0 or later");
  FULMAR_GPU_TRY(cudaSetDevice(options.index));
  if (!gpu::has_code_here()) {
    return unsuited("this program was built for " FULMAR_GPU_TARGETS);
  }
  auto ops = std::make_unique<GpuOps>(std::move(facts), options);
  FULMAR_TRY(ops->open());
  return std::unique_ptr<Ops>(std::move(ops));
}

Result<std::vector<std::unique_ptr<Collective>>> open_sums(std::span<Ops* const> group,
                                                           const CollectiveOptions& options, SumWay way) {
  return gpu::open_peer_collectives(GpuOps::peer_ends(group), options, way);
}

}  // namespace fulmar
