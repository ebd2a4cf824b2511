#include "gpu/device/sum_library.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/log.h"
#include "base/shared_library.h"
#include "gpu/device/memory.h"
#include "ops/device.h"

namespace fulmar::gpu {

namespace {

constexpr bool kNccl = std::string_view(kVendorDevice) == "cuda";
constexpr const char* kNcclFiles[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
                                      "/opt/cuda/lib64/libnccl.so.2"};
constexpr const char* kRcclFiles[] = {"librccl.so.1", "librccl.so", "/opt/rocm/lib/librccl.so.1"};

// Constants of the library's header.
constexpr int kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9, kSum = 0, kSuccess = 0;

int library_type_of(DType dtype) {
  return dtype == DType::f32 ? kFloat32 : dtype == DType::bf16 ? kBfloat16 : kFloat16;
}

SharedLibrary find_library() {
  // Turns NVLink multicast off: a multicast object that a program leaves behind can keep all GPUs of the host
  // from working until they are reset. The library reads this when it is loaded.
  ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  for (const char* file : kNccl ? std::span<const char* const>(kNcclFiles) : kRcclFiles) {
    SharedLibrary library(file, RTLD_NODELETE);
    if (library.found()) return library;
  }
  return SharedLibrary("");
}

}  // namespace

struct SumLibraryFunctions {
  int (*init_all)(void** communicators, int count, const int* devices) = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int operation, void* communicator,
                    cudaStream_t stream) = nullptr;
  int (*abort)(void* communicator) = nullptr;
  int (*destroy)(void* communicator) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*error_text)(int) = nullptr;

  bool load() {
    const SharedLibrary library = find_library();
    return library.load("ncclCommInitAll", init_all) && library.load("ncclAllReduce", all_reduce) &&
           library.load("ncclCommAbort", abort) && library.load("ncclCommDestroy", destroy) &&
           library.load("ncclGroupStart", group_start) && library.load("ncclGroupEnd", group_end) &&
           library.load("ncclGetErrorString", error_text);
  }
};

SumLibrary::SumLibrary(size_t ranks) : ends_(ranks) {}

std::string SumLibrary::version() {
  const SharedLibrary library = find_library();
  int (*get_version)(int*) = nullptr;
  int number = 0;
  if (!library.load("ncclGetVersion", get_version) || get_version(&number) != kSuccess) return {};
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
         std::to_string(number % 100);
}

std::unique_ptr<SumLibrary> SumLibrary::open(std::span<const int> devices, std::span<const Queue> queues) {
  std::unique_ptr<SumLibrary> library(new SumLibrary(devices.size()));
  library->functions_ = std::make_unique<SumLibraryFunctions>();
  if (!library->functions_->load()) return nullptr;
  std::vector<void*> communicators(devices.size());
  const int status =
      library->functions_->init_all(communicators.data(), static_cast<int>(devices.size()), devices.data());
  if (status != kSuccess) {
    spdlog::warn("the library for sums over GPUs cannot be started: {}",
                 library->functions_->error_text(status));
    return nullptr;
  }
  for (size_t rank = 0; rank < devices.size(); rank++) {
    library->ends_[rank].communicator = communicators[rank];
  }
  return library->meet_once(devices, queues) ? std::move(library) : nullptr;
}

// Connects the ranks, which the library does at their first all-reduce: here, so that later calls do not
// block the calling thread.
bool SumLibrary::meet_once(std::span<const int> devices, std::span<const Queue> queues) {
  constexpr size_t kBytes = size_t{32} << 20;
  std::vector<Buffer> numbers;
  for (const int device : devices) {
    if (cudaSetDevice(device) != cudaSuccess) return false;
    auto buffer = allocate_device(kBytes);
    if (!buffer.ok()) return false;
    numbers.push_back(std::move(buffer).value());
  }
  bool met = functions_->group_start() == kSuccess;
  for (size_t rank = 0; rank < devices.size(); rank++) {
    void* const data = numbers[rank].data();
    met = functions_->all_reduce(data, data, kBytes / sizeof(float), kFloat32, kSum, ends_[rank].communicator,
                                 queues[rank].stream) == kSuccess &&
          met;
  }
  met = functions_->group_end() == kSuccess && met;
  for (size_t rank = 0; rank < devices.size(); rank++) {
    met = cudaSetDevice(devices[rank]) == cudaSuccess &&
          cudaStreamSynchronize(queues[rank].stream) == cudaSuccess && met;
  }
  return met;
}

SumLibrary::~SumLibrary() {
  for (End& end : ends_) {
    if (end.communicator != nullptr) functions_->destroy(end.communicator);
  }
}

void SumLibrary::sum(size_t rank, const Queue& queue, const Tensor& numbers, const Tensor& sum) {
  End& end = ends_[rank];
  const std::lock_guard lock(end.mutex);
  if (end.communicator == nullptr) throw DeviceFailure("sums over several GPUs have been given up");
  const int status =
      functions_->all_reduce(numbers.data, sum.data, static_cast<size_t>(numbers.count()),
                             library_type_of(numbers.dtype), kSum, end.communicator, queue.stream);
  if (status != kSuccess) {
    throw DeviceFailure(std::string("a sum over several GPUs failed: ") + functions_->error_text(status));
  }
}

void SumLibrary::abort() {
  for (End& end : ends_) {
    const std::lock_guard lock(end.mutex);
    if (end.communicator != nullptr) functions_->abort(end.communicator);
    end.communicator = nullptr;
  }
}

}  // namespace fulmar::gpu
