// Elementwise epilogues of products: within a kernel (finish), or as a kernel of its own
// after the GEMM library (activate).
#pragma once

#include "gpu/device/device.h"
#include "gpu/gemm/gemm.h"
#include "ops/args.h"

#ifdef FULMAR_DEVICE_CODE
#include "gpu/device/element.h"
#endif

namespace fulmar::gpu {

// Sets x = act(x + bias) in place; an empty bias counts as zero. x [rows, C], bias f32 [1, C].
void activate(const Queue&, Tensor x, Tensor bias, Activation);
void add_bias(const Queue&, Tensor x, Tensor bias);
// Sets x = epilogue(x) in place.
void apply_epilogue(const Queue&, Tensor x, Epilogue);

#ifdef FULMAR_DEVICE_CODE
__device__ __forceinline__ float finish(Epilogue epilogue, float x) {
  switch (epilogue) {
    case Epilogue::none:
      return x;
    case Epilogue::tanh:
      return tanhf(x);
    case Epilogue::sigmoid:
      return sigmoid(x);
    case Epilogue::silu:
      return x * sigmoid(x);
    case Epilogue::relu_squared:
      x = fmaxf(x, 0.0f);
      return x * x;
  }
  return x;
}
#endif

}  // namespace fulmar::gpu
