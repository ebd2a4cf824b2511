// Writes PyTorch checkpoints: the zip archive of torch 1.6 and later, as `torch.load` opens it with and
// without `weights_only`. Knows no models.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "files/checkpoint.h"

namespace fulmar {

// A further file in the archive's folder.
struct PthMember {
  std::string name, content;
};

// Writes a state dict of the tensors in their order, row-major, each with its own storage. Types for which
// PyTorch has no storage, such as block formats and codes with scales, become f16, one tensor at a time in
// memory. The file gets its name only when it is complete. Error invalid: no tensors.
Status write_pth(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                 const std::function<void(double)>& progress = {}, std::span<const PthMember> members = {});

}  // namespace fulmar
