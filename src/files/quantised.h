// A checkpoint with its large matrices quantised in memory: what serving and writing of quantised models
// share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "tensor/quantise.h"

namespace fulmar {

// The importance matrix of a model: what a squared error in each column of a matrix counts, by its name.
using Importance = std::unordered_map<std::string, std::vector<float>>;

struct QuantiseOptions {
  // Of the large matrices, receptance, key, value, gate and output, of each mix; nothing: as they are stored.
  std::optional<Quantisation> time_mix, channel_mix, head;
  std::function<void(double fraction)> progress;
  // Of matrices that are packed by it; the columns of others count alike.
  Importance importance = {};
};

// Both mixes alike.
QuantiseOptions quantise_all(const Quantisation& quantisation, std::optional<Quantisation> head = {});

// What a head gets unless it is kept: at 8 bits it adds about as much error as all blocks do, at 4 far more.
Quantisation head_quantisation();

// What the options make of a tensor of this name and shape, in a floating-point type; nothing where it stays.
std::optional<Quantisation> quantisation_of(std::string_view name, std::span<const int64_t> shape,
                                            const QuantiseOptions& options);

// Matrices whose codes kernels multiply: the ones that options speak of. Everything else is small, gathered
// or added.
bool is_large_matrix(std::string_view name);

// What became of the matrices of one kind, "att.key.weight" in all blocks.
struct QuantisedKind {
  std::string kind;
  std::string_view type;  // the quantisation's name
  DType dtype = DType::f32;
  int64_t matrices = 0;
  double bits = 0;          // a weight, with its scales
  double relative_rms = 0;  // error over the root mean square of the weights, as columns count
};

// The types that the matrices of blocks became: "q6_k", "int8, q4_0".
std::string kinds_in_blocks(std::span<const QuantisedKind> kinds);

// Rows that the quantisation does not fit take the next better one that does (`fitting`), or stay as they
// are. The embedding, low-rank factors and vectors always stay: a gathered row costs no bandwidth, and its
// error is never averaged out. Uses every core. Refuses numbers that are not finite, naming the tensor.
Result<std::unique_ptr<Checkpoint>> quantise_checkpoint(std::unique_ptr<Checkpoint> source,
                                                        const QuantiseOptions& options,
                                                        std::vector<QuantisedKind>* kinds = nullptr);

}  // namespace fulmar
