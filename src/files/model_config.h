// Sizes of a model, as read from its tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "tensor/format.h"

namespace fulmar {

inline constexpr int kVersions[] = {7, 6};

// Returns what belongs to a model's version, of one value for each of kVersions in their order. What differs
// among versions is said by such values; nobody compares a version.
template <class First, class... Others>
constexpr First of_version(int version, First first, Others... others) {
  static_assert(1 + sizeof...(Others) == std::size(kVersions), "a version lacks its value");
  const First values[] = {first, others...};
  return values[std::find(std::begin(kVersions), std::end(kVersions) - 1, version) - std::begin(kVersions)];
}

struct ModelConfig {
  int version = 0;          // one of kVersions
  bool deep_embed = false;  // RWKV-7a
  int64_t n_layer = 0;
  int64_t n_embd = 0;     // C = n_head * head_size
  int64_t n_head = 0;     // H
  int64_t head_size = 0;  // N
  int64_t n_ffn = 0;      // F
  int64_t vocab = 0;      // V: rows of the embedding and of the head

  // Low-rank widths of RWKV-7; rank_v is 0 in a model of one layer.
  int64_t rank_w = 0, rank_a = 0, rank_v = 0, rank_g = 0;
  // Low-rank widths of RWKV-6.
  int64_t rank_mix = 0, rank_decay = 0;
  int64_t deep_embed_rank = 0;  // D of RWKV-7a

  DType dtype = DType::f32;       // that most parameters are stored in
  int64_t parameters = 0;         // that the maths uses
  bool time_state = false;        // the weights include a tuned initial state
  bool embedding_normed = false;  // the embedding already includes ln0

  // What a person who inspects the file should know: unused tensors, mixed types, ... one line each.
  std::vector<std::string> oddities;
};

}  // namespace fulmar
