// Models made of arithmetic instead of training: for tests and speed measurements without any download.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "files/checkpoint.h"
#include "files/model_config.h"
#include "tensor/dtype.h"
#include "tensor/quantise.h"

namespace fulmar {

struct SyntheticSpec {
  int version = 7;  // 6 or 7
  int64_t n_layer = 0, n_head = 0, head_size = 0, vocab = 0;
  int64_t n_ffn = 0;                                       // 0: the usual one for the version
  int64_t rank_w = 0, rank_a = 0, rank_v = 0, rank_g = 0;  // version 7
  int64_t rank_mix = 0, rank_decay = 0;                    // version 6
  int64_t deep_embed_rank = 0;                             // > 0 makes an RWKV-7a
  bool time_state = false;                                 // adds blocks.l.att.time_state, [H, N, N]
  DType dtype = DType::f32;                                // f32, f16 or bf16
  // What large matrices of the blocks are quantised to; the head then becomes head_quantisation(). Where rows
  // are whole runs of 256 weights they are put together from encoded runs that return: cheap at any size, but
  // then an element depends on more than its name.
  std::optional<Quantisation> quantisation;
  uint64_t seed = 0;
  // Share of exact zeros behind relu² of the feed-forward network, in [0, 1); about 0.5 comes by itself. When
  // > 0, ln2.bias gets a constant and every row of ffn.key the same negative slope along it, which moves the
  // mean of all pre-activations below zero by the right number of standard deviations. Hits the share within
  // a few percent; the weights then differ from the recipe.
  double ffn_zeros = 0;
};

// Sizes of a released model: "rwkv7-0.1b", -0.4b, -1.5b, -2.9b, -7.2b, -13.3b, "rwkv6-1.6b", -3b, -7b, -14b.
// Type f16.
std::optional<SyntheticSpec> synthetic_preset(std::string_view name);
std::vector<std::string_view> synthetic_preset_names();

// Official names and shapes; element i of a tensor depends only on its name, i and the seed, so that any
// program can make the same model. Generated on all cores, rounded from f32 to the spec's type. All sizes of
// the spec must be positive (the ranks of its version included). Null when the memory cannot be had.
std::unique_ptr<Checkpoint> synthetic_checkpoint(const SyntheticSpec& spec);

}  // namespace fulmar
