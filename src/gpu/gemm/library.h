// Products for many rows, by the vendor's GEMM library (library/nvidia/library.cpp, library/amd/library.cpp).
// It is loaded when the first GPU is opened, so that the program starts where it is missing; then, or where
// it is not wanted, launch_naive computes them.
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
  // Fails when the library cannot be loaded, naming the files that were tried.
  static Result<std::unique_ptr<VendorGemm>> open(const DeviceFacts&, const VendorGemmOptions&);
  ~VendorGemm();

  // out = in @ weight^T. The first product of a shape and bucket of rows, unless an earlier start met it, has
  // the library's candidates timed, which takes as long as several steps; not to be met first while a graph
  // is captured. in and weight have the activation type, out that or f32. Accumulates in f32, partial sums
  // included.
  void run(const Queue& queue, Tensor in, const Weight& weight, Tensor out);

  // out = scales x (in @ weight^T) with `in` E4M3, f32 `scales` [rows] of its rows on the device, and a
  // weight that is_float8_rows is true of; out f16, bf16 or f32. Times candidates as run() does. False, and
  // nothing is launched, where there is no library or it has no such product.
  bool run_float8(const Queue& queue, Tensor in, const float* scales, const Weight& weight, Tensor out);

  // The largest number of rows of each bucket, ascending, the last of them `most`; empty where nothing is
  // timed.
  std::vector<int64_t> buckets(int64_t most) const;

 private:
  struct Library;  // the vendor's, and what is remembered about it

  VendorGemm();

  std::unique_ptr<Library> library_;  // null: plain products
};

}  // namespace fulmar::gpu
