// Searches the weights of a file for NaN and infinity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/checkpoint.h"

namespace fulmar {

struct Nonfinite {
  std::string tensor;
  int64_t index = 0;      // row-major position of the first one
  std::string_view what;  // "NaN", "infinity", or of a block: "a scale that is no number"
};

// Returns the float tensors that hold a number that is not finite, in the checkpoint's order. Reads every
// weight once, with as many threads as the machine has cores.
std::vector<Nonfinite> all_nonfinite(const Checkpoint& checkpoint);
// Returns the first of them; stops reading there.
std::optional<Nonfinite> first_nonfinite(const Checkpoint& checkpoint);

}  // namespace fulmar
