// AMD's management library (rocm_smi). The few functions that are needed are declared after its
// documentation.
#include <array>

#include "control/gpu_library.h"

namespace fulmar {
namespace {

constexpr int kSuccess = 0;
enum MemoryKind : int { kOnCard = 0 };
enum TemperatureMetric : int { kCurrent = 0 };
constexpr uint32_t kEdgeSensor = 0;

class RocmSmi final : public GpuLibrary {
 public:
  explicit RocmSmi(SharedLibrary file) : file_(std::move(file)) {}
  ~RocmSmi() override {
    if (started_) shutdown_();
  }

  // Loads the functions and starts the library; false where a part is absent.
  bool start() {
    const bool complete = file_.load("rsmi_init", init_) && file_.load("rsmi_shut_down", shutdown_) &&
                          file_.load("rsmi_num_monitor_devices", count_) &&
                          file_.load("rsmi_dev_name_get", name_) &&
                          file_.load("rsmi_dev_memory_total_get", memory_total_) &&
                          file_.load("rsmi_dev_memory_usage_get", memory_used_) &&
                          file_.load("rsmi_dev_busy_percent_get", busy_) &&
                          file_.load("rsmi_dev_temp_metric_get", temperature_);
    started_ = complete && init_(0) == kSuccess;
    file_.load("rsmi_dev_power_ave_get", power_);
    return started_;
  }

  std::vector<GpuFigures> ask() override {
    std::vector<GpuFigures> gpus;
    uint32_t devices = 0;
    if (count_(&devices) != kSuccess) return gpus;
    for (uint32_t i = 0; i < devices; ++i) gpus.push_back(ask_one(i));
    return gpus;
  }

 private:
  GpuFigures ask_one(uint32_t device) const {
    GpuFigures gpu{.index = static_cast<int>(device)};
    std::array<char, 96> text{};
    uint64_t bytes = 0, microwatts = 0;
    uint32_t percent = 0;
    int64_t millidegrees = 0;
    if (name_(device, text.data(), text.size() - 1) == kSuccess) gpu.name = text.data();
    if (memory_total_(device, kOnCard, &bytes) == kSuccess) gpu.memory_total_mb = bytes >> 20;
    if (memory_used_(device, kOnCard, &bytes) == kSuccess) gpu.memory_used_mb = bytes >> 20;
    if (busy_(device, &percent) == kSuccess) gpu.utilization = static_cast<int>(percent);
    if (temperature_(device, kEdgeSensor, kCurrent, &millidegrees) == kSuccess) {
      gpu.temperature = static_cast<int>(millidegrees / 1000);
    }
    if (power_ != nullptr && power_(device, 0, &microwatts) == kSuccess) {
      gpu.power = static_cast<int>(microwatts / 1'000'000);
    }
    return gpu;
  }

  SharedLibrary file_;
  bool started_ = false;
  int (*init_)(uint64_t flags) = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(uint32_t*) = nullptr;
  int (*name_)(uint32_t, char*, size_t) = nullptr;
  int (*memory_total_)(uint32_t, MemoryKind, uint64_t*) = nullptr;
  int (*memory_used_)(uint32_t, MemoryKind, uint64_t*) = nullptr;
  int (*busy_)(uint32_t, uint32_t*) = nullptr;
  int (*temperature_)(uint32_t, uint32_t sensor, TemperatureMetric, int64_t*) = nullptr;
  int (*power_)(uint32_t, uint32_t sensor,
                uint64_t*) = nullptr;  // null where the library has no such function
};

}  // namespace

std::unique_ptr<GpuLibrary> open_rocm_smi(const char* file) {
  auto library = std::make_unique<RocmSmi>(SharedLibrary(file));
  if (!library->start()) return nullptr;
  return library;
}

}  // namespace fulmar
