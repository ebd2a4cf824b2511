// Models made from a recipe instead of a file: the same numbers on every machine (integer hashing only). For
// tests, benchmarks without downloads, and goldens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/checkpoint.h"

namespace fulmar {

struct SyntheticShape {
  int version = 7;  // 6 or 7
  int64_t n_layer = 0;
  int64_t n_head = 0;
  int64_t head_size = 64;
  int64_t vocab = 0;
  int64_t n_ffn = 0;
  int64_t rank_w = 0, rank_a = 0, rank_v = 0, rank_g = 0;  // RWKV-7
  int64_t deep_rank = 0;                                   // RWKV-7a where positive
  int64_t rank_mix = 0, rank_decay = 0;                    // RWKV-6
  bool time_state = false;                                 // adds blocks.l.att.time_state

  int64_t n_embd() const { return n_head * head_size; }
};

struct SyntheticTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Every tensor of such a model, official names and orientation, in the order of an official file.
std::vector<SyntheticTensor> synthetic_tensors(const SyntheticShape& shape);

// Elements [first, first + out.size()) of the row-major tensor.
void fill_synthetic(const SyntheticTensor& tensor, int64_t first, std::span<float> out, uint64_t seed = 0);

// The whole model in memory, every tensor in one type (f32, f16 or bf16). Made by all cores.
std::unique_ptr<Checkpoint> make_synthetic(const SyntheticShape& shape, DType dtype, uint64_t seed = 0);

}  // namespace fulmar
