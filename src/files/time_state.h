// Reads files with tuned initial states: one tensor blocks.l.att.time_state per layer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"

namespace fulmar {

// The order of the last two axes in a file. The tensors are square, so their shape does not show it.
enum class TimeStateOrder : uint8_t {
  by_container,  // key_major for web-rwkv's files (named *.st), else value_major
  value_major,   // [head][value][key], as training programs write it for both versions
  key_major,     // [head][key][value]
};

// By layer, each [H, N, N] f32 in the order [head][value][key], for every version of the model. Both
// token-shift vectors start at zero. Readers refuse missing layers, shapes that do not fit the model, layers
// that it does not have, and numbers that are not finite.
using TimeState = std::vector<std::vector<float>>;

Result<TimeState> read_time_state(const std::filesystem::path& path, const ModelConfig& config,
                                  TimeStateOrder order = TimeStateOrder::by_container);

// Reads likewise from an open checkpoint, such as a model with a state among its weights; by_container means
// value_major here.
Result<TimeState> read_time_state(const Checkpoint& checkpoint, const ModelConfig& config,
                                  TimeStateOrder order);

}  // namespace fulmar
