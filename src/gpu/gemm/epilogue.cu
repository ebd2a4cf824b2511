// Activations as kernels of their own, for products whose kernel has no epilogue.
#include "base/check.h"
#include "gpu/device/for_rows.h"
#include "gpu/gemm/epilogue.h"

namespace fulmar::gpu {

namespace {

__device__ float apply(Activation act, float x) {
  switch (act) {
    case Activation::tanh:
      return tanhf(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::silu:
      return x * sigmoid(x);
    case Activation::relu_squared:
      return x > 0 ? x * x : 0.0f;
  }
  return x;
}

// Sets x = act(x + bias); with `plain` only adds the bias.
template <class T>
void activate_of(const Queue& queue, Tensor x, Tensor bias, Activation act, bool plain) {
  const auto at = rows_of<T>(x);
  const float* added = bias.as<float>();
  for_rows(queue, x.rows, x.cols, [=] __device__(int64_t row, int64_t c) {
    Float4 v = load4(at[row] + c);
    const Float4 b = added != nullptr ? load4(added + c) : Float4{};
#pragma unroll
    for (int i = 0; i < kRowVector; i++) v.x[i] = plain ? v.x[i] + b.x[i] : apply(act, v.x[i] + b.x[i]);
    store4(at[row] + c, v);
  });
}

}  // namespace

void activate(const Queue& queue, Tensor x, Tensor bias, Activation act) {
  with_activation(x.dtype, [&](auto sample) { activate_of<decltype(sample)>(queue, x, bias, act, false); });
}

void add_bias(const Queue& queue, Tensor x, Tensor bias) {
  with_activation(
      x.dtype, [&](auto sample) { activate_of<decltype(sample)>(queue, x, bias, Activation::tanh, true); });
}

void apply_epilogue(const Queue& queue, Tensor x, Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return;
    case Epilogue::tanh:
      return activate(queue, x, {}, Activation::tanh);
    case Epilogue::sigmoid:
      return activate(queue, x, {}, Activation::sigmoid);
    case Epilogue::silu:
      return activate(queue, x, {}, Activation::silu);
    case Epilogue::relu_squared:
      return activate(queue, x, {}, Activation::relu_squared);
  }
}

}  // namespace fulmar::gpu
