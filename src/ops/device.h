// How the program reaches a GPU without knowing its vendor: declared here, defined by the GPU backend or by
// its stand-in in a build without one.
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

// A device failed during its work: nothing on it can be read or run any more. The one exception that backends
// throw; whoever drives one catches it.
class DeviceFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct DeviceOptions {
  int index = 0;                  // in list_gpus
  bool half_state = false;        // store recurrent states as f16; computed in f32 anyway
  DType activation = DType::f16;  // f16 or bf16; matrices are imported into this type
  // Quantises inputs of fp8 weights to fp8, with a scale per row, at more than a few rows. Needs compute
  // capability 9.0; open_gpu fails (unsupported) elsewhere.
  bool float8_inputs = false;
  bool capture = true;  // replay decode steps from captured graphs
  // Runs large GEMMs by a plain kernel, without the vendor's library: slow; for sanitizers, and where the
  // library is missing or fails.
  bool plain_products = false;
  // false: no TMA and no wgmma, as on GPUs without them; to test and time those kernels.
  bool panels = true;
  // false: no mma.sync kernels either: GEMMs by dot products, the library or the plain kernel, recurrences by
  // tiles, default islands, as on an AMD card; to test and time those.
  bool matrix_units = true;
  // Batch-invariant: the bits of a sequence depend neither on what else is in a step nor on how many rows it
  // has. Every sum has one order, and only our own kernels run.
  bool deterministic = false;
  // A file that caches the fastest algorithms of the GEMM library, so that they are timed once per machine
  // and restarts give equal bits; empty: timed at every start.
  std::filesystem::path gemm_choices;
  StateWrites state_writes;  // for heads of 64 channels; with others every step writes its states
};

struct GpuInfo {
  int index = 0;
  std::string name;
  size_t memory_total = 0;  // bytes
  int multiprocessors = 0;
};

// Returns the kind of GPU in --device names that this program was built for: "cuda" or "hip"; "" without GPU
// support.
const char* gpu_kind();

// Returns the GPUs; empty without a GPU, a driver, or GPU support in the build.
std::vector<GpuInfo> list_gpus();

// Opens a GPU; fails (unsupported), saying why, where it cannot be used.
Result<std::unique_ptr<Ops>> open_gpu(const DeviceOptions& options);

// Opens the ends of an all-reduce as Ops::collectives_of does, but with one algorithm for all sizes: to
// measure it.
Result<std::vector<std::unique_ptr<Collective>>> open_sums(std::span<Ops* const> group,
                                                           const CollectiveOptions& options, SumWay way);

}  // namespace fulmar
