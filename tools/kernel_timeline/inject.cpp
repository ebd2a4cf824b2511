// Notes when each kernel of a program began and ended on an NVIDIA GPU, inside steps as they run: CUPTI's
// activity records, which change neither the order nor the overlap (PDL) of kernels. It is a library that the
// driver loads by itself; TIMELINE_OUT names the file for timeline.py, TIMELINE_DEVICE which GPU's kernels are
// noted (0). Built and used as run.sh does.
#include <cupti.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>

namespace {

struct Kernel {
  uint64_t start, end;  // ns
  int blocks, threads;
  std::string name;
};
constexpr size_t kMostKernels = 20'000;  // the last ones
constexpr size_t kBufferBytes = size_t{8} << 20;

// Never ended: the driver may hand over records until the program is gone.
std::mutex& lock = *new std::mutex;
std::deque<Kernel>& kernels = *new std::deque<Kernel>;

uint32_t device_of_interest() {
  const char* text = std::getenv("TIMELINE_DEVICE");
  return text != nullptr ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : 0;
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  static const uint32_t device = device_of_interest();
  const std::lock_guard held(lock);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    if (kernel.deviceId != device) continue;
    kernels.push_back({kernel.start, kernel.end, kernel.gridX * kernel.gridY * kernel.gridZ, kernel.blockX,
                       kernel.name != nullptr ? kernel.name : "?"});
    if (kernels.size() > kMostKernels) kernels.pop_front();
  }
  std::free(buffer);
}

void write_kernels() {
  cuptiActivityFlushAll(1);
  const char* path = std::getenv("TIMELINE_OUT");
  std::FILE* file = std::fopen(path != nullptr ? path : "timeline.tsv", "w");
  if (file == nullptr) return std::perror(path != nullptr ? path : "timeline.tsv");
  for (const Kernel& one : kernels) {
    std::fprintf(file, "%lu\t%lu\t%d\t%d\t%s\n", static_cast<unsigned long>(one.start),
                 static_cast<unsigned long>(one.end), one.blocks, one.threads, one.name.c_str());
  }
  std::fclose(file);
}

}  // namespace

extern "C" int InitializeInjection() {
  if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
      cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    std::fputs("kernel timeline: CUPTI records no kernels here\n", stderr);
    return 0;
  }
  std::atexit(write_kernels);
  return 1;
}
