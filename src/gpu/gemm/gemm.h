// A product as islands name it, out = epilogue(in @ weight^T), and nothing of how it is computed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

// What becomes of a product before it is stored: f32 sums go through it on their way out.
enum class Epilogue : uint8_t { none, tanh, sigmoid, silu, relu_squared };

struct Gemm {
  Tensor in;      // [rows, K], activation type
  Weight weight;  // [outs, K]
  Tensor out;     // [rows, outs], activation type, or f32 where nothing follows
  Epilogue epilogue = Epilogue::none;
};

// Products that do not depend on each other, of equal row count.
using GemmList = std::span<const Gemm>;
constexpr int kMostGemms = 8;  // of one launch

}  // namespace fulmar::gpu
