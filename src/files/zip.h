// The directory of a ZIP archive whose members are stored, not compressed: where each payload lies. Knows
// nothing of what the members mean.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/bytes.h"

namespace fulmar {

struct ZipMember {
  std::string_view name;  // inside the archive's bytes
  uint64_t offset = 0;    // of the payload, from the start of the archive
  uint64_t size = 0;      // bytes
};

// True when the bytes start like a ZIP archive.
bool looks_like_zip(ByteSpan file);

// Members in directory order, ZIP64 included. Refused: compressed or encrypted members, payloads outside the
// archive or overlapping one another or the directory, repeated names, local headers that disagree.
Result<std::vector<ZipMember>> read_zip_directory(ByteSpan archive);

}  // namespace fulmar
