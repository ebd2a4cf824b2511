// Models computed instead of trained: for tests and speed measurements without any download.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "files/checkpoint.h"
#include "files/model_config.h"
#include "tensor/format.h"
#include "tensor/quantise.h"

namespace fulmar {

struct SyntheticSpec {
  int version = 7;  // one of kVersions
  int64_t n_layer = 0, n_head = 0, head_size = 0, vocab = 0;
  int64_t n_ffn = 0;                                       // 0: the usual one for the version
  int64_t rank_w = 0, rank_a = 0, rank_v = 0, rank_g = 0;  // version 7
  int64_t rank_mix = 0, rank_decay = 0;                    // version 6
  int64_t deep_embed_rank = 0;                             // > 0 makes an RWKV-7a
  bool time_state = false;                                 // adds blocks.l.att.time_state, [H, N, N]
  DType dtype = DType::f32;                                // f32, f16 or bf16
  // The quantisation of the blocks' large matrices; the head then becomes head_quantisation(). Rows that are
  // whole runs of 256 weights are assembled from a few encoded runs: cheap at any size, but an element then
  // depends on more than its name.
  std::optional<Quantisation> quantisation;
  uint64_t seed = 0;
  // The fraction of exact zeros after relu² of the feed-forward network, in [0, 1); 0.5 results by itself. If
  // > 0, ln2.bias gets a constant and every row of ffn.key the same negative slope along it, which moves the
  // mean of all pre-activations below zero by the right number of standard deviations. Accurate to a few
  // percent; the weights then differ from the recipe.
  double ffn_zeros = 0;
};

// Returns the sizes of a released model: "rwkv7-0.1b", -0.4b, -1.5b, -2.9b, -7.2b, -13.3b, "rwkv6-1.6b", -3b,
// -7b, -14b. Type f16.
std::optional<SyntheticSpec> synthetic_preset(std::string_view name);
std::vector<std::string_view> synthetic_preset_names();

// Makes a model with official names and shapes. Element i of a tensor depends only on its name, i and the
// seed, so any program can make the same model. Runs on all cores; rounds from f32 to the spec's type. All
// sizes of the spec, with the ranks of its version, must be positive. Null if the memory is not available.
std::unique_ptr<Checkpoint> synthetic_checkpoint(const SyntheticSpec& spec);

// Writes numbers uniform in ±amplitude by the same recipe, which any program can make the same.
void synthetic_numbers(std::string_view name, uint64_t seed, double amplitude, std::span<float> out);

}  // namespace fulmar
