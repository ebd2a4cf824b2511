// The few functions of the management library that are needed, declared after its documentation.
#include "control/gpu_list.h"

#include <dlfcn.h>

#include <array>

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

}  // namespace

struct GpuList::Library {
  void* handle = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned int*) = nullptr;
  int (*by_index)(unsigned int, Device*) = nullptr;
  int (*name)(Device, char*, unsigned int) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*memory_apart)(Device, MemoryApart*) = nullptr;  // null in drivers before 510
  int (*utilization)(Device, Utilization*) = nullptr;
  int (*temperature)(Device, int, unsigned int*) = nullptr;
  int (*power)(Device, unsigned int*) = nullptr;  // milliwatts; null where the library has no such function

  // Null when any part is absent.
  static std::unique_ptr<Library> open(const char* file) {
    auto library = std::make_unique<Library>();
    library->handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == nullptr) return nullptr;
    const bool complete = library->load("nvmlInit_v2", library->init) &&
                          library->load("nvmlShutdown", library->shutdown) &&
                          library->load("nvmlDeviceGetCount_v2", library->count) &&
                          library->load("nvmlDeviceGetHandleByIndex_v2", library->by_index) &&
                          library->load("nvmlDeviceGetName", library->name) &&
                          library->load("nvmlDeviceGetMemoryInfo", library->memory) &&
                          library->load("nvmlDeviceGetUtilizationRates", library->utilization) &&
                          library->load("nvmlDeviceGetTemperature", library->temperature);
    if (!complete || library->init() != kSuccess) {
      ::dlclose(library->handle);
      return nullptr;
    }
    library->load("nvmlDeviceGetMemoryInfo_v2", library->memory_apart);
    library->load("nvmlDeviceGetPowerUsage", library->power);
    return library;
  }

  template <class Function>
  bool load(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle, symbol));
    return function != nullptr;
  }

  std::vector<GpuFigures> ask() const {
    std::vector<GpuFigures> gpus;
    unsigned int devices = 0;
    if (count(&devices) != kSuccess) return gpus;
    for (unsigned int i = 0; i < devices; ++i) {
      Device device = nullptr;
      if (by_index(i, &device) == kSuccess) gpus.push_back(ask_one(static_cast<int>(i), device));
    }
    return gpus;
  }

  void ask_memory(Device device, GpuFigures& gpu) const {
    MemoryApart apart{.version = kMemoryApart};
    Memory bytes{};
    if (memory_apart != nullptr && memory_apart(device, &apart) == kSuccess) {
      gpu.memory_total_mb = apart.total >> 20;
      gpu.memory_used_mb = apart.used >> 20;
    } else if (memory(device, &bytes) == kSuccess) {
      gpu.memory_total_mb = bytes.total >> 20;
      gpu.memory_used_mb = bytes.used >> 20;
    }
  }

  GpuFigures ask_one(int index, Device device) const {
    GpuFigures gpu{.index = index};
    std::array<char, 96> text{};
    Utilization share{};
    unsigned int degrees = 0;
    if (name(device, text.data(), static_cast<unsigned int>(text.size())) == kSuccess) gpu.name = text.data();
    ask_memory(device, gpu);
    if (utilization(device, &share) == kSuccess) gpu.utilization = static_cast<int>(share.gpu);
    if (temperature(device, kTemperatureOfGpu, &degrees) == kSuccess) {
      gpu.temperature = static_cast<int>(degrees);
    }
    unsigned int milliwatts = 0;
    if (power != nullptr && power(device, &milliwatts) == kSuccess)
      gpu.power = static_cast<int>(milliwatts / 1000);
    return gpu;
  }
};

GpuList::GpuList() : GpuList("libnvidia-ml.so.1") {}
GpuList::GpuList(const char* library) : library_(Library::open(library)) {}

GpuList::~GpuList() {
  if (!library_) return;
  library_->shutdown();
  ::dlclose(library_->handle);
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
