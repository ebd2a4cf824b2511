// CUDA graphs (recorded steps): what a step launches is recorded once per shape and replayed from then on.
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

  // All that a step's launches depend on but for what lies in memory.
  struct Key {
    int64_t rows, sequences, wanted;
    bool revocable, rings;  // of its batch
    const void* states;     // where they lie

    auto operator<=>(const Key&) const = default;
  };

  // Runs the body as it is the first time a shape comes, so that everything it needs is chosen and allocated;
  // records it the second time; replays it afterwards. Where the device has no memory left for what was
  // recorded, the body runs as it is, now and from then on. `memory` changes whenever memory was allocated or
  // given back: what was recorded before may then point into nowhere.
  void run(cudaStream_t stream, const Key& key, uint64_t memory, const std::function<void()>& body);

 private:
  struct Step {
    cudaGraphExec_t graph = nullptr;  // null: seen once, or
    bool refused = false;             // there is no memory for it
  };

  // Both false, with step.refused, where memory does not suffice.
  static bool record(cudaStream_t stream, const std::function<void()>& body, Step& step);
  static bool replay(cudaStream_t stream, Step& step);
  void forget();

  uint64_t memory_ = 0;
  std::map<Key, Step> steps_;
};

}  // namespace fulmar::gpu
