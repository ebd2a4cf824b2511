// What becomes of a product before it is stored.
#pragma once

#include "gpu/element.h"
#include "gpu/kernels.h"

namespace fulmar::gpu {

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

}  // namespace fulmar::gpu
