// Products of many rows by the vendor's GEMM library (library/nvidia/library.cpp, library/amd/library.cpp).
// It is loaded when the first GPU is opened, so the program starts where it is missing. Without it, or with
// `plain`, launch_naive computes them.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/result.h"
#include "gpu/device/device.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

struct VendorGemmOptions {
  bool plain = false;             // launch_naive in the library's place
  std::filesystem::path choices;  // where algorithms are kept between starts; empty: nowhere
};

class VendorGemm {
 public:
  // Loads the library. Fails where that is impossible, naming the files that were tried.
  static Result<std::unique_ptr<VendorGemm>> open(const DeviceFacts&, const VendorGemmOptions&);
  ~VendorGemm();

  // Enqueues out = in @ weight^T. The first product of a shape and bucket of rows times the library's
  // candidates, unless the file of choices has it: that takes as long as several steps, and must not
  // happen while a graph is captured. in and weight have the activation type, out that or f32.
  // Accumulates in f32, partial sums included.
  void run(const Queue& queue, Tensor in, const Weight& weight, Tensor out);

  // Enqueues out = scales x (in @ weight^T) for `in` in E4M3, f32 `scales` [rows] of its rows on the device,
  // and a weight that is_float8_rows is true of; out f16, bf16 or f32. Times candidates as run() does.
  // Returns false, and launches nothing, where there is no library or it has no such product.
  bool run_float8(const Queue& queue, Tensor in, const float* scales, const Weight& weight, Tensor out);

  // Returns the largest number of rows of each bucket, ascending, the last of them `most`;
  // empty where nothing is timed.
  std::vector<int64_t> buckets(int64_t most) const;

 private:
  struct Library;  // the vendor's functions, and what is remembered about them

  VendorGemm();

  std::unique_ptr<Library> library_;  // null: launch_naive
};

}  // namespace fulmar::gpu
