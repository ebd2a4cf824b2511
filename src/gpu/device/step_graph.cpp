#include "gpu/device/step_graph.h"

#include "base/log.h"
#include "gpu/device/full_device.h"

namespace fulmar::gpu {

namespace {

// Returns false, and clears the error, where a call ran out of memory; throws on any other error.
bool had_memory(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) {
    forget_failure();
    spdlog::warn("the GPU has no memory left for a recorded step; it runs unrecorded, which is slower");
    return false;
  }
  FULMAR_GPU(error);
  return true;
}

}  // namespace

void StepGraphs::forget() {
  for (const auto& [key, step] : steps_) {
    if (step.graph != nullptr) ignore_failure(cudaGraphExecDestroy(step.graph));
  }
  steps_.clear();
}

bool StepGraphs::record(cudaStream_t stream, const std::function<void()>& body, Step& step) {
  cudaGraph_t graph = nullptr;
  FULMAR_GPU(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  body();
  FULMAR_GPU(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t made = nullptr;
  const cudaError_t error = pretend_full ? cudaErrorMemoryAllocation : cudaGraphInstantiate(&made, graph, 0);
  FULMAR_GPU(cudaGraphDestroy(graph));
  step.refused = !had_memory(error);
  if (!step.refused) step.graph = made;
  return !step.refused;
}

bool StepGraphs::replay(cudaStream_t stream, Step& step) {
  if (had_memory(cudaGraphLaunch(step.graph, stream))) return true;
  FULMAR_GPU(cudaGraphExecDestroy(step.graph));
  step = {.graph = nullptr, .refused = true};
  return false;
}

void StepGraphs::run(cudaStream_t stream, const Key& key, uint64_t memory,
                     const std::function<void()>& body) {
  if (memory != memory_) {
    FULMAR_GPU(cudaStreamSynchronize(stream));
    forget();
    memory_ = memory;
  }
  const auto [at, unseen] = steps_.try_emplace(key);
  Step& step = at->second;
  if (unseen || step.refused) return body();
  if (step.graph == nullptr && !record(stream, body, step)) return body();
  if (!replay(stream, step)) body();
}

}  // namespace fulmar::gpu
