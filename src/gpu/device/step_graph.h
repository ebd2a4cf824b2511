// CUDA graphs: a step's launches are captured once per shape and replayed from then on.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>

#include "gpu/device/device.h"

namespace fulmar::gpu {

class StepGraphs {
 public:
  StepGraphs() = default;
  ~StepGraphs() { forget(); }
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  // All that a step's launches depend on, except what lies in device memory.
  struct Key {
    int64_t rows, sequences, wanted;
    bool revocable, rings;  // as in its batch
    const void* states;     // base address

    auto operator<=>(const Key&) const = default;
  };

  // Runs `body` directly the first time a shape comes, so that everything it needs is chosen and allocated;
  // captures it the second time; replays it afterwards. Where the device has no memory left for the graph,
  // `body` runs directly from then on. `memory` counts allocations and releases: graphs captured at another
  // count may hold stale addresses.
  void run(cudaStream_t stream, const Key& key, uint64_t memory, const std::function<void()>& body);

 private:
  struct Step {
    cudaGraphExec_t graph = nullptr;  // null: not captured yet, or
    bool refused = false;             // out of memory for it
  };

  // Captures (record) or launches (replay) a step's graph. Returns false, with step.refused set, when out of
  // memory.
  static bool record(cudaStream_t stream, const std::function<void()>& body, Step& step);
  static bool replay(cudaStream_t stream, Step& step);
  void forget();

  uint64_t memory_ = 0;
  std::map<Key, Step> steps_;
};

}  // namespace fulmar::gpu
