// What fulmar inspect says of an adapter.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace fulmar {

// Prints kind, rank, targets, scale, base and size of the adapter at the path; with `tensors` every tensor.
Status inspect_adapter(const std::filesystem::path& path, bool tensors);

}  // namespace fulmar
