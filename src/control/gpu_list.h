// The machine's NVIDIA GPUs, by the driver's management library, loaded at run time: without a driver there
// are none. Needs nothing at build time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace fulmar {

struct GpuFigures {
  int index = 0;
  std::string name;
  uint64_t memory_total_mb = 0;    // MiB
  uint64_t memory_used_mb = 0;     // by programs, where the driver tells these apart from itself
  std::optional<int> utilization;  // percent
  std::optional<int> temperature;  // degrees Celsius
  std::optional<int> power;        // watts, drawn
};

// Any thread. The driver is asked at most once a second.
class GpuList {
 public:
  GpuList();
  explicit GpuList(const char* library);  // another file than the driver's
  ~GpuList();
  GpuList(const GpuList&) = delete;
  GpuList& operator=(const GpuList&) = delete;

  std::vector<GpuFigures> figures();

 private:
  struct Library;
  std::mutex mutex_;
  std::unique_ptr<Library> library_;  // null without a driver
  std::chrono::steady_clock::time_point asked_{};
  std::vector<GpuFigures> last_;
};

}  // namespace fulmar
