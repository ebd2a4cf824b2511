// AMD's GEMM libraries, loaded at run time. The few functions that are needed are declared
// after their documentation, without AMD's headers: the program builds where these are
// absent, and every build tests this code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "tensor/format.h"

namespace fulmar::gpu {

// out [rows, outs] = in [rows, inner] @ weight^T; strides in elements.
struct LibraryProduct {
  int64_t rows, outs, inner;
  const void* in;
  int64_t in_stride;
  const void* weight;
  bool transposed;  // stored [inner, outs] rather than [outs, inner]
  void* out;
  int64_t out_stride;
  DType type, out_type;  // of in and weight: f16 or bf16; of out: that or f32
};

// Device memory that a product may use; concurrent products have different ones.
struct LibraryWorkspace {
  void* data = nullptr;
  size_t bytes = 0;
};

class GemmLibrary {
 public:
  virtual ~GemmLibrary() = default;
  // Enqueues the product on the vendor's stream. Returns false where the library has no kernel
  // for it, an error where it fails.
  virtual Result<bool> run(void* stream, const LibraryProduct&, const LibraryWorkspace&) = 0;
};

// Open the first of these files that exists. Fail where none does, where it lacks a function, is older than
// the least version, or cannot be started on the current device.
using LibraryFiles = std::span<const char* const>;
Result<std::unique_ptr<GemmLibrary>> open_rocblas(LibraryFiles);
Result<std::unique_ptr<GemmLibrary>> open_hipblaslt(LibraryFiles);

}  // namespace fulmar::gpu
