// Writes PyTorch checkpoints: the zip archive of torch 1.6 and later, as `torch.load` opens it with and
// without `weights_only`. Knows no models.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "base/result.h"
#include "files/checkpoint.h"

namespace fulmar {

// A state dict of the tensors in their order, row-major, each with a storage of its own. Types that PyTorch
// has no storage for, block formats and codes with scales among them, become f16, one tensor at a time in
// memory. The file appears under its name only when it is complete. Refused ("invalid"): no tensors.
Status write_pth(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                 const std::function<void(double)>& progress = {});

}  // namespace fulmar
