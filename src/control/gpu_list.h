// The machine's GPUs, by the driver's management library: NVIDIA's, else AMD's.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "control/gpu_library.h"

namespace fulmar {

// Any thread. The driver is asked at most once a second.
class GpuList {
 public:
  GpuList();
  explicit GpuList(std::unique_ptr<GpuLibrary> library) : library_(std::move(library)) {}

  std::vector<GpuFigures> figures();
  // Returns the numbers of the GPUs that there are; nothing where there may be some that no library tells of.
  std::optional<std::vector<int64_t>> numbers();

 private:
  std::mutex mutex_;
  std::unique_ptr<GpuLibrary> library_;  // null without a driver
  std::chrono::steady_clock::time_point asked_{};
  std::vector<GpuFigures> last_;
};

}  // namespace fulmar
