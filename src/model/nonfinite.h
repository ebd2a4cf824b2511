// Looks for NaN and infinity in the weights of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "files/checkpoint.h"

namespace fulmar {

struct Nonfinite {
  std::string tensor;
  int64_t index = 0;      // row-major position of the first one
  std::string_view what;  // "NaN" or "infinity"
};

// The first float tensor (in the checkpoint's order) that holds a number that is not finite. Reads every
// weight once, with as many threads as the machine has cores.
std::optional<Nonfinite> first_nonfinite(const Checkpoint& checkpoint);

}  // namespace fulmar
