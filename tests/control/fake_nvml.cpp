// A management library of two GPUs, as its documentation describes it. The second is one whose driver does
// not tell what it keeps for itself, nor how busy the GPU is.
#include <cstring>

namespace {

constexpr int kSuccess = 0, kInvalid = 2, kNotSupported = 3;
constexpr unsigned long long kMiB = 1ull << 20;
int devices[2];

struct Memory {
  unsigned long long total, free, used;
};
struct MemoryApart {
  unsigned int version;
  unsigned long long total, reserved, free, used;
};
struct Utilization {
  unsigned int gpu, memory;
};

bool is_second(const void* device) { return device == &devices[1]; }

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
  if (index > 1) return kInvalid;
  *device = &devices[index];
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* name, unsigned int length) {
  std::strncpy(name, is_second(device) ? "Second GPU" : "First GPU", length);
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {1000 * kMiB, 300 * kMiB, 700 * kMiB};
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryApart* memory) {
  if (memory->version != (sizeof(MemoryApart) | 2u << 24)) return kInvalid;
  if (is_second(device)) return kNotSupported;
  *memory = {memory->version, 1000 * kMiB, 600 * kMiB, 300 * kMiB, 100 * kMiB};
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* device, Utilization* share) {
  if (is_second(device)) return kNotSupported;
  *share = {42, 7};
  return kSuccess;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
  if (is_second(device)) return kNotSupported;
  *milliwatts = 251'900;
  return kSuccess;
}
int nvmlDeviceGetTemperature(void*, int, unsigned int* degrees) {
  *degrees = 37;
  return kSuccess;
}
}
