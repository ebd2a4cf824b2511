// How the program reaches a GPU without knowing its vendor: declared here, defined by the GPU backend or, in
// a build without one, by its stand-in that says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/ops.h"
#include "ops/shared_draws.h"
#include "ops/sum_way.h"

namespace fulmar {

// A device has failed in the middle of its work: nothing on it can be read or run any more. The one exception
// that backends throw; whoever drives one catches it.
class DeviceFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct DeviceOptions {
  int index = 0;                  // among those that list_gpus gives
  bool half_state = false;        // keep the recurrent state in f16 between tokens; computed in f32 anyway
  DType activation = DType::f16;  // f16 or bf16; matrices are imported into this type
  // fp8 weights are multiplied by inputs in fp8, a scale for each row, where more than a few rows meet them.
  // Compute capability 9.0; fails with kind unsupported elsewhere.
  bool float8_inputs = false;
  bool capture = true;  // replay decode steps from recorded graphs
  // Large products by a plain kernel, without the vendor's library: slow; for sanitizers, and where the
  // library is missing or fails.
  bool plain_products = false;
  // False: products by the kernels of GPUs that lack tensor memory access and warp-group matrix instructions,
  // where the GPU has them; to test and time those.
  bool panels = true;
  // False: no kernel made of NVIDIA's matrix fragments: products by dot products, the library or the plain
  // kernel, recurrences by tiles, default islands. What an AMD card does; to test and time that.
  bool matrix_units = true;
  // Batch-invariant: the bits of a sequence do not depend on what else is in a step, nor on how many rows it
  // has; every sum has one order, by kernels of ours alone.
  bool deterministic = false;
  // A file in which the GEMM library's quickest algorithms are kept, so that they are looked for once on a
  // machine and two starts give equal bits; empty: looked for by every start.
  std::filesystem::path gemm_choices;
  StateWrites state_writes;  // of models whose heads have 64 channels; others' are written by every step
};

struct GpuInfo {
  int index = 0;
  std::string name;
  size_t memory_total = 0;  // bytes
  int multiprocessors = 0;
};

// As --device names GPUs of the kind that this program was built for: "cuda" or "hip"; "" without GPU
// support.
const char* gpu_kind();

// Empty where there is no GPU, no driver, or a build without GPU support.
std::vector<GpuInfo> list_gpus();

// Fails with kind unsupported where no such GPU can be used, saying why.
Result<std::unique_ptr<Ops>> open_gpu(const DeviceOptions& options);

// As Ops::collectives_of, with all sums in one way: to measure it.
Result<std::vector<std::unique_ptr<Collective>>> open_sums(std::span<Ops* const> group,
                                                           const CollectiveOptions& options, SumWay way);

}  // namespace fulmar
