// The weights of a model in host memory, by their official names, beside what is trained: initial states,
// shifts, adapter factors. Knows no blocks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"
#include "ops/parameters.h"

namespace fulmar {

// Shapes are [1, n] for vectors, [out, in] for matrices named .weight, [in, out] for low-rank factors; of a
// tensor with three axes the first two are one. Besides weights there are, for each layer l,
//   blocks.l.att.time_state [H, N * N]   the initial state, each head [value][key]
//   blocks.l.att.shift0, blocks.l.ffn.shift0 [1, C]   what the row before the first counts as
// and, for a matrix X.weight with an adapter, X.lora_A and X.lora_B, or X.miss. All begin frozen.
template <class Number>
struct ModelParameters {
  ModelConfig config;
  std::map<std::string, Parameter<Number>, std::less<>> all;
  std::map<std::string, Number, std::less<>> scales;  // of adapted matrices, by X

  // Returns the parameter; null where there is none.
  Parameter<Number>* find(std::string_view name);
  // Lets the parameters whose names end in one of these collect gradients. Freezes all others.
  void train(std::span<const std::string_view> endings);
};

// Copies a model's weights, decoded to plain numbers: what the gradients of quantised weights are computed
// with is what the forward computes with. States begin as the file's, or at zero; shifts at zero. Error
// unsupported: RWKV-7a.
template <class Number>
Result<ModelParameters<Number>> load_parameters(const Checkpoint& checkpoint);

// Returns the official names of the matrices that adapters change, without ".weight".
std::vector<std::string> adapted_matrices_of(const ModelConfig& config);

// The factors of an adapter before training.
enum class AdapterKind : uint8_t { lora, miss };
struct AdapterShape {
  AdapterKind kind = AdapterKind::lora;
  int64_t rank = 16;  // 1 to 1,024
  double scale = 1;   // what the factors' product is multiplied by: alpha / rank
};
// Adds factors for the matrix X.weight: A uniform in ±1/√in, of a generator that depends on the factor's name
// and the seed alone; B, or the one of MiSS, zero. X is one of the model's matrices [out, in].
template <class Number>
void add_adapter(ModelParameters<Number>& parameters, const std::string& matrix, const AdapterShape& shape,
                 uint64_t seed);

}  // namespace fulmar
