// All-reduce by the vendor's collective library, NCCL or RCCL, loaded at run time: the baseline for our own
// kernels.
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
  // Opens one end for each rank, in order, on different devices of one host. Null where the library is
  // missing or fails to start on them.
  static std::unique_ptr<SumLibrary> open(std::span<const int> devices, std::span<const Queue> queues);
  // Returns the library's version, such as "2.28.9"; empty where it is missing.
  static std::string version();
  ~SumLibrary();
  SumLibrary(const SumLibrary&) = delete;
  SumLibrary& operator=(const SumLibrary&) = delete;

  // All-reduces into `sum`; called on each rank's thread in the same order. Rounds in the numbers' type, to
  // the same bits on every rank; both tensors contiguous.
  void sum(size_t rank, const Queue& queue, const Tensor& numbers, const Tensor& sum);
  // Aborts all communication, on the devices too, from any thread.
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
