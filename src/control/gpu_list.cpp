#include "control/gpu_list.h"

#include <filesystem>
#include <system_error>

namespace fulmar {

GpuList::GpuList() : GpuList(open_nvml("libnvidia-ml.so.1")) {
  for (const char* file :
       {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5", "librocm_smi64.so"}) {
    if (library_ == nullptr) library_ = open_rocm_smi(file);
  }
}

std::vector<GpuFigures> GpuList::figures() {
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (library_ &&
      (asked_ == std::chrono::steady_clock::time_point{} || now - asked_ > std::chrono::seconds(1))) {
    last_ = library_->ask();
    asked_ = now;
  }
  return last_;
}

std::optional<std::vector<int64_t>> GpuList::numbers() {
  std::vector<int64_t> numbers;
  for (const GpuFigures& gpu : figures()) numbers.push_back(gpu.index);
  if (!numbers.empty()) return numbers;
  // What drivers make: of NVIDIA, of AMD, of either in a guest of Windows.
  for (const char* device : {"/dev/nvidiactl", "/dev/kfd", "/dev/dxg"}) {
    std::error_code unknown;
    if (std::filesystem::exists(device, unknown)) return std::nullopt;
  }
  return numbers;
}

}  // namespace fulmar
