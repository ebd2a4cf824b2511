// What a version of the model is to its files: how a checkpoint tells it, its tensors by their official and
// GGUF names, its sizes, and what synthetic ones consist of. Readers, writers and generators have no list of
// their own.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/model_config.h"

namespace fulmar {

// One size of a tensor: a size of the model, `times` as much, perhaps squared.
struct Dim {
  int64_t ModelConfig::*size = nullptr;  // null: `times` itself
  int64_t times = 0;                     // 0: no such axis
  bool squared = false;

  constexpr int64_t of(const ModelConfig& config) const {
    const int64_t own = size == nullptr ? 1 : config.*size;
    return times * own * (squared ? own : 1);
  }
};

enum class Where : uint8_t {
  before_blocks,  // the name is whole
  after_blocks,   // likewise
  every_block,
  first_block,   // not where the embedding is normed already
  later_blocks,  // needed from block 1 on; block 0 may hold it, unused
  deep_blocks,   // every block of models with deep embeddings
};

// What the GGUF form of a tensor needs.
enum class GgufPart : uint8_t {
  plain,            // as it is
  matrix,           // [out, in], may be in blocks
  rescaled_matrix,  // likewise; files of versions that rescale may hold it divided by a power of two
  transposed,       // the last two axes change places
  heads,            // [C] or [H, N], officially [H, N]
  mix,              // written as one of stacked_mixes, read by a name of its own, too, where it has one
  stacked_mixes,    // the version's mixes in one tensor
  unused,           // never read
};

// Values of synthetic tensors: base + amplitude * (2u - 1), u uniform in [0, 1).
struct Range {
  // The amplitude: `given`, or for weights [out, in], first factors [in, rank] and second ones [.., rank,
  // out] the one that keeps the spread of what they multiply.
  enum class By : uint8_t { given, weight, first, second };

  double base = 0, amplitude = 0;
  By by = By::given;
};

// A tensor that the forward needs.
struct ModelTensor {
  std::string_view name;  // after "blocks.<l>." inside blocks
  Where where;
  std::array<Dim, 3> shape;
  Range values;
  std::string_view gguf;  // after "blk.<l>." inside blocks; empty: GGUF has none
  GgufPart part = GgufPart::plain;
};

constexpr bool in_blocks(const ModelTensor& tensor) {
  return tensor.where != Where::before_blocks && tensor.where != Where::after_blocks;
}
// Returns whether a model's forward needs a tensor in block `layer`.
constexpr bool in_block(const ModelTensor& tensor, int64_t layer, const ModelConfig& config) {
  switch (tensor.where) {
    case Where::every_block:
      return true;
    case Where::first_block:
      return layer == 0 && !config.embedding_normed;
    case Where::later_blocks:
      return layer > 0;
    case Where::deep_blocks:
      return config.deep_embed;
    default:
      return false;
  }
}

// A low-rank width: axis 1 of a tensor, which holds it `parts` times.
struct RankSize {
  std::string_view label;
  int64_t ModelConfig::*size;
  std::string_view tensor;  // a name inside `block`, which one-layer models may lack
  std::string_view gguf_key;
  int64_t block = 0;
  int64_t parts = 1;
};

struct Version {
  int number;
  std::string_view sign;   // a part of a tensor's name that versions before it in the table lack
  std::string_view heads;  // the tensor in block 0 whose shape is [H, N]
  std::span<const ModelTensor> tensors;  // in the order of a state dict, those in blocks once
  std::span<const RankSize> ranks;
  int64_t ffn_halves;  // the usual feed-forward width in halves of C
  bool deep_embed;     // some models have deep embeddings
  bool rescales;       // GGUF files have rescale_every_n_layers
};

// Returns all versions, newest first, as in kVersions.
std::span<const Version> versions();
const Version& version_of(int number);
// Returns a tensor's official shape in a model, without the unit axes of vectors.
std::vector<int64_t> shape_of(const ModelTensor& tensor, const ModelConfig& config);
// Returns the sum of a model's low-rank widths, each as often as it is held.
int64_t low_ranks(const ModelConfig& config);
// Returns "<before>7<between><before>6" for a message.
std::string each_version(std::string_view before, std::string_view between);

}  // namespace fulmar
