// A product as islands name it, out = epilogue(in @ weight^T), with nothing of how it is computed.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "tensor/tensor.h"
#include "tensor/weight.h"

namespace fulmar::gpu {

// An elementwise function that f32 sums go through before they are stored.
enum class Epilogue : uint8_t { none, tanh, sigmoid, silu, relu_squared };

struct Gemm {
  Tensor in;      // [rows, K], activation type
  Weight weight;  // [outs, K]
  Tensor out;     // [rows, outs], activation type, or f32 without an epilogue
  Epilogue epilogue = Epilogue::none;
};

// Products of equal row count that do not depend on each other.
using GemmList = std::span<const Gemm>;
constexpr int kMostGemms = 8;  // of one launch

}  // namespace fulmar::gpu
