#include "gpu/step_graph.h"

namespace fulmar::gpu {

void StepGraphs::forget() {
  for (const auto& [key, graph] : recorded_) {
    if (graph != nullptr) FULMAR_GPU(cudaGraphExecDestroy(graph));
  }
  recorded_.clear();
}

void StepGraphs::run(cudaStream_t stream, const Key& key, uint64_t memory,
                     const std::function<void()>& body) {
  if (memory != memory_) {
    FULMAR_GPU(cudaStreamSynchronize(stream));
    forget();
    memory_ = memory;
  }
  const auto [at, unseen] = recorded_.try_emplace(key, nullptr);
  if (unseen) return body();
  if (at->second == nullptr) {
    cudaGraph_t graph = nullptr;
    FULMAR_GPU(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    body();
    FULMAR_GPU(cudaStreamEndCapture(stream, &graph));
    FULMAR_GPU(cudaGraphInstantiate(&at->second, graph, 0));
    FULMAR_GPU(cudaGraphDestroy(graph));
  }
  FULMAR_GPU(cudaGraphLaunch(at->second, stream));
}

}  // namespace fulmar::gpu
