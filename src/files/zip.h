// Reads the directory of a ZIP archive whose members are stored, not compressed, and finds their payloads.
// Knows nothing of what the members mean.
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
  uint32_t crc = 0;       // CRC-32 of the payload; 0 where its writer left it out
};

// Returns whether the bytes start like a ZIP archive.
bool looks_like_zip(ByteSpan file);

// Returns the members in directory order, ZIP64 included. Refuses compressed or encrypted members, payloads
// outside the archive or overlapping each other or the directory, repeated names, local headers that
// disagree.
Result<std::vector<ZipMember>> read_zip_directory(ByteSpan archive);

// Returns the CRC-32 that ZIP archives use.
uint32_t crc32_of(ByteSpan content);

// Reads the whole payload and checks its CRC-32 against that of the directory; the error has both.
Status check_payload(ByteSpan archive, const ZipMember& member);

}  // namespace fulmar
