// The serialised form of a slot, as session databases, exported sessions and `chat --session` files have it.
//
// Little endian: "FULMARST", u32 version 1, u32 header bytes, then text lines `key value`: the model's
// fingerprint, the adapter's identity where there was one, the layout, dtypes, token and turn counts, payload
// bytes and its XXH3-128, and last the XXH3-128 of everything before that line; then the payload, the slot's
// bytes. Files whose header ends with the payload's checksum are read, too. A layout with other fields
// than RWKV-7 and RWKV-6 lists them in a line `fields`, NAME:SHAPE:TYPE each.
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
  std::string fingerprint;   // of the model that made it
  std::string adapter = {};  // beside it: identity of what it changed; empty: none
  StateLayout layout{.fields = FieldList::none()};
  int64_t tokens = 0;              // fed since the zero state
  int64_t turn = 0;                // how often the session was committed; a larger one is newer
  std::vector<std::byte> payload;  // layout.slot_bytes() long
};

// Names what a state was computed with, as errors do: "no adapter", or "adapter " and its identity.
std::string adapter_words(const std::string& identity);

std::vector<std::byte> encode_blob(const StateBlob& blob);

// Checks magic, version, sizes, counts and checksums. Error corrupt: says which of them, found and wanted.
Result<StateBlob> decode_blob(std::span<const std::byte> bytes);

// Converts the payload to another layout of the same model (other dtypes). Error invalid: the fingerprint,
// the shape or the fields differ.
Result<std::vector<std::byte>> payload_for(const StateBlob& blob, const std::string& fingerprint,
                                           const StateLayout& layout);

// Checks that all numbers are finite: others spoil all later answers. Error invalid: names layer and part.
Status check_finite(std::span<const std::byte> payload, const StateLayout& layout);

}  // namespace fulmar
