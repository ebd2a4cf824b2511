// Reads and writes safetensors: a JSON header and one buffer that the tensors tile. Knows no models.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "files/bytes.h"
#include "files/checkpoint.h"

namespace fulmar {

bool looks_like_safetensors(ByteSpan file);

// Returns the tensors as views of `file`, in the order of their data. Refuses headers over 100 MB, element
// types without a DType, data that does not tile the buffer without gaps and overlaps, and repeated names.
// `files` and `owners` of the result are empty.
Result<CheckpointParts> read_safetensors(ByteSpan file);

// Writes the tensors in the given order, row-major and in their stored type. The file gets its name only when
// it is complete.
Status write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                         const std::map<std::string, std::string>& metadata = {});

}  // namespace fulmar
