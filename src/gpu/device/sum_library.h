// All-reduce by the vendor's library for collective operations, NCCL or RCCL, which is loaded at run time:
// own kernels are compared with it.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gpu/device/device.h"

namespace fulmar::gpu {

struct SumLibraryFunctions;

class SumLibrary {
 public:
  // One end for each rank, in order, on devices of one host, all different. Null where there is no library,
  // or where it cannot be started on them.
  static std::unique_ptr<SumLibrary> open(std::span<const int> devices, std::span<const Queue> queues);
  // Its version, such as "2.28.9"; empty: it is not there.
  static std::string version();
  ~SumLibrary();
  SumLibrary(const SumLibrary&) = delete;
  SumLibrary& operator=(const SumLibrary&) = delete;

  // On the thread of a rank, for all ranks alike: `sum` becomes that of all ranks' numbers, rounded in their
  // type, the same bits everywhere; both without gaps.
  void sum(size_t rank, const Queue& queue, const Tensor& numbers, const Tensor& sum);
  // From any thread: nothing waits for another rank any more, on the devices neither.
  void abort();

 private:
  struct End {
    void* communicator = nullptr;
    std::mutex mutex;  // of calls with it
  };

  explicit SumLibrary(size_t ranks);
  bool meet_once(std::span<const int> devices, std::span<const Queue> queues);

  std::unique_ptr<SumLibraryFunctions> functions_;
  std::vector<End> ends_;
};

}  // namespace fulmar::gpu
