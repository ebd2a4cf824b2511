// The serial form of one slot: what session databases, exported sessions and `chat --session` files hold.
//
// Little endian: "FULMARST", u32 version 1, u32 header bytes, then as text lines `key value` the model's
// fingerprint, the layout, dtypes, token and turn counts, payload bytes and its XXH3-128, and last the
// XXH3-128 of everything before that line; then the payload, the slot's bytes. Files whose header ends with
// the payload's checksum are read, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/state.h"

namespace fulmar {

// A saved state in host memory.
struct StateBlob {
  std::string fingerprint;  // of the model that made it
  StateLayout layout;
  int64_t tokens = 0;              // fed since the zero state
  int64_t turn = 0;                // how often the session was committed; a larger one is newer
  std::vector<std::byte> payload;  // layout.slot_bytes() long
};

std::vector<std::byte> encode_blob(const StateBlob& blob);

// Checks magic, version, sizes, counts and checksums; a corrupt Error says which, found and wanted.
Result<StateBlob> decode_blob(std::span<const std::byte> bytes);

// The payload in another layout of the same model (other dtypes); an invalid Error when fingerprint or shape
// differ.
Result<std::vector<std::byte>> payload_for(const StateBlob& blob, const std::string& fingerprint,
                                           const StateLayout& layout);

// A state with NaN or infinity answers nonsense for ever: an invalid Error that names layer and part.
Status check_finite(std::span<const std::byte> payload, const StateLayout& layout);

}  // namespace fulmar
