// Quantises the large matrices of a checkpoint in memory, for serving and for writing of quantised
// models.
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

// A model's importance matrix: for each matrix, by name, the weight of a squared error in each column.
using Importance = std::unordered_map<std::string, std::vector<float>>;

struct QuantiseOptions {
  // For the large matrices (receptance, key, value, gate, output) of each mix; nothing: as they are stored.
  std::optional<Quantisation> time_mix, channel_mix, head;
  std::function<void(double fraction)> progress;
  // For matrices that are encoded by importance; the columns of others count equally.
  Importance importance = {};
};

// Returns options with the same quantisation for both mixes.
QuantiseOptions quantise_all(const Quantisation& quantisation, std::optional<Quantisation> head = {});

// Returns the quantisation of a head: 8 bits add about the error of all blocks together, 4 bits far more.
Quantisation head_quantisation();

// Returns how the options quantise a floating-point tensor of this name and shape; nothing: not at all.
std::optional<Quantisation> quantisation_of(std::string_view name, std::span<const int64_t> shape,
                                            const QuantiseOptions& options);

// Returns whether it is a matrix that kernels multiply as codes, to which the options apply. All others are
// small, gathered or added.
bool is_large_matrix(std::string_view name);

// The result for the matrices of one kind, "att.key.weight" in all blocks.
struct QuantisedKind {
  std::string kind;
  std::string_view type;  // the quantisation's name
  DType dtype = DType::f32;
  int64_t matrices = 0;
  double bits = 0;          // a weight, with its scales
  double relative_rms = 0;  // error over the root mean square of the weights, as columns count
};

// Returns the types that the matrices of blocks became: "q6_k", "int8, q4_0".
std::string kinds_in_blocks(std::span<const QuantisedKind> kinds);

// Quantises a checkpoint. Rows that do not suit the quantisation take the next better one (`fitting`), or
// none. The embedding, low-rank factors and vectors stay: a gathered row costs no bandwidth, and its error is
// never averaged out. Uses every core. Error: a number is not finite; names the tensor.
Result<std::unique_ptr<Checkpoint>> quantise_checkpoint(std::unique_ptr<Checkpoint> source,
                                                        const QuantiseOptions& options,
                                                        std::vector<QuantisedKind>* kinds = nullptr);

}  // namespace fulmar
