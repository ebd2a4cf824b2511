#include "control/gpu_list.h"

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

}  // namespace fulmar
