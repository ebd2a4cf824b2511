// NVIDIA's management library (NVML). The few functions that are needed are declared after its documentation.
#include <array>

#include "control/gpu_library.h"

namespace fulmar {
namespace {

using Device = struct NvmlDevice*;
struct Memory {
  unsigned long long total, free, used;  // bytes; used counts what the driver keeps for itself
};
struct MemoryApart {
  unsigned int version;
  unsigned long long total, reserved, free, used;  // bytes; used is what programs have
};
struct Utilization {
  unsigned int gpu, memory;  // percent
};
constexpr int kSuccess = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr unsigned int kMemoryApart = sizeof(MemoryApart) | 2u << 24;  // its version, as the library wants it

class Nvml final : public GpuLibrary {
 public:
  explicit Nvml(SharedLibrary file) : file_(std::move(file)) {}
  ~Nvml() override {
    if (started_) shutdown_();
  }

  // Loads the functions and starts the library; false where a part is absent.
  bool start() {
    const bool complete = file_.load("nvmlInit_v2", init_) && file_.load("nvmlShutdown", shutdown_) &&
                          file_.load("nvmlDeviceGetCount_v2", count_) &&
                          file_.load("nvmlDeviceGetHandleByIndex_v2", by_index_) &&
                          file_.load("nvmlDeviceGetName", name_) &&
                          file_.load("nvmlDeviceGetMemoryInfo", memory_) &&
                          file_.load("nvmlDeviceGetUtilizationRates", utilization_) &&
                          file_.load("nvmlDeviceGetTemperature", temperature_);
    started_ = complete && init_() == kSuccess;
    file_.load("nvmlDeviceGetMemoryInfo_v2", memory_apart_);
    file_.load("nvmlDeviceGetPowerUsage", power_);
    return started_;
  }

  std::vector<GpuFigures> ask() override {
    std::vector<GpuFigures> gpus;
    unsigned int devices = 0;
    if (count_(&devices) != kSuccess) return gpus;
    for (unsigned int i = 0; i < devices; ++i) {
      Device device = nullptr;
      if (by_index_(i, &device) == kSuccess) gpus.push_back(ask_one(static_cast<int>(i), device));
    }
    return gpus;
  }

 private:
  void ask_memory(Device device, GpuFigures& gpu) const {
    MemoryApart apart{.version = kMemoryApart};
    Memory bytes{};
    if (memory_apart_ != nullptr && memory_apart_(device, &apart) == kSuccess) {
      gpu.memory_total_mb = apart.total >> 20;
      gpu.memory_used_mb = apart.used >> 20;
    } else if (memory_(device, &bytes) == kSuccess) {
      gpu.memory_total_mb = bytes.total >> 20;
      gpu.memory_used_mb = bytes.used >> 20;
    }
  }

  GpuFigures ask_one(int index, Device device) const {
    GpuFigures gpu{.index = index};
    std::array<char, 96> text{};
    Utilization share{};
    unsigned int degrees = 0, milliwatts = 0;
    const auto length = static_cast<unsigned int>(text.size());
    if (name_(device, text.data(), length) == kSuccess) gpu.name = text.data();
    ask_memory(device, gpu);
    if (utilization_(device, &share) == kSuccess) gpu.utilization = static_cast<int>(share.gpu);
    if (temperature_(device, kTemperatureOfGpu, &degrees) == kSuccess)
      gpu.temperature = static_cast<int>(degrees);
    if (power_ != nullptr && power_(device, &milliwatts) == kSuccess)
      gpu.power = static_cast<int>(milliwatts / 1000);
    return gpu;
  }

  SharedLibrary file_;
  bool started_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned int*) = nullptr;
  int (*by_index_)(unsigned int, Device*) = nullptr;
  int (*name_)(Device, char*, unsigned int) = nullptr;
  int (*memory_)(Device, Memory*) = nullptr;
  int (*memory_apart_)(Device, MemoryApart*) = nullptr;  // null in drivers before 510
  int (*utilization_)(Device, Utilization*) = nullptr;
  int (*temperature_)(Device, int, unsigned int*) = nullptr;
  int (*power_)(Device, unsigned int*) = nullptr;  // milliwatts; null where the library has no such function
};

}  // namespace

std::unique_ptr<GpuLibrary> open_nvml(const char* file) {
  auto library = std::make_unique<Nvml>(SharedLibrary(file));
  if (!library->start()) return nullptr;
  return library;
}

}  // namespace fulmar
