// Names for storing the weights of a model: Fulmar's quantisations, and the names of other RWKV servers.
// Knows no files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "files/quantised.h"

namespace fulmar {

// Ends the name of a strategy that keeps the head as it is stored, "q4_k+stored_head".
inline constexpr std::string_view kStoredHead = "+stored_head";

struct Strategy {
  std::string name;  // as it was asked for
  // For the large matrices of each mix; nothing: as they are stored.
  std::optional<Quantisation> time_mix, channel_mix;
  bool exact = true;         // false: the nearest that there is to what the name means elsewhere
  bool stored_head = false;  // the head stays as it is stored

  bool quantises() const { return time_mix.has_value() || channel_mix.has_value(); }
};

// Parses Fulmar's own names (`all_quantisations`); of others fp6, fp5, fp5c, bnb_nf4, bnb_int4, quant, fp16i8
// and bf16i8; "attn_KIND_ffn_KIND" of any two of these; any of them with kStoredHead; "", "None", "fp16" and
// "bf16" keep weights as they are stored. Error unsupported, with all of these names: any other.
Result<Strategy> strategy_named(std::string_view name);

// Returns "fp16, bf16, None, q8_0, ...", as errors and help list them.
std::string strategy_names();

// Returns what happens to the weights, in words: "q6_k (6.6 bits a weight), the nearest to fp6".
std::string describe(const Strategy& strategy);

// Returns a strategy's options; the head gets head_quantisation() unless kept, or nothing is quantised.
QuantiseOptions options_of(const Strategy& strategy, bool keep_head = false);

// Returns the bits of one weight with its share of the scales, for rows of `cols` weights; 0: for long rows.
double bits_of(const Quantisation& quantisation, int64_t cols = 0);

// Returns why a model of `parameters` parameters should keep more bits than the options give; empty: no
// objection.
std::string few_bits_advice(const QuantiseOptions& options, int64_t parameters);

}  // namespace fulmar
