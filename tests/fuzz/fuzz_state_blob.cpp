// Saved states from strangers. Bytes that begin with the magic are decoded as they are; else header lines, up
// to an empty one, and a payload are framed and checksummed, so that what lies behind the checksum is
// reached.
#include <xxhash.h>

#include <cstring>
#include <span>
#include <string>

#include "cache/state_blob.h"
#include "fuzz_input.h"

namespace {

using namespace fulmar;

std::string framed(std::string_view input) {
  std::string header(take_until(input, "\n\n"));
  const XXH128_hash_t hash = XXH3_128bits(input.data(), input.size());
  char lines[80];
  std::snprintf(lines, sizeof lines, "\npayload %zu\nxxh3_128 %016llx%016llx\n", input.size(),
                static_cast<unsigned long long>(hash.high64), static_cast<unsigned long long>(hash.low64));
  header += lines;  // of two lines with the same key the first counts
  const uint32_t numbers[] = {1, static_cast<uint32_t>(header.size())};
  std::string bytes = "FULMARST";
  bytes.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
  return bytes.append(header).append(input);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void check(const StateBlob& blob) {
  expect(blob.payload.size() == blob.layout.slot_bytes() && blob.tokens >= 0 && blob.turn >= 0);
  if (blob.fingerprint.size() <= 256) {
    const Result<StateBlob> again = decode_blob(encode_blob(blob));
    expect(again.ok() && again->fingerprint == blob.fingerprint && again->layout == blob.layout);
    expect(again->tokens == blob.tokens && again->turn == blob.turn && again->payload == blob.payload);
  }
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    StateLayout layout = blob.layout;
    layout.shift_dtype = layout.wkv_dtype = dtype;
    const auto payload = payload_for(blob, blob.fingerprint, layout);
    expect(payload.ok() && payload->size() == layout.slot_bytes());
    layout.n_layer += 1;
    expect(!payload_for(blob, blob.fingerprint, layout).ok());
  }
  expect(!payload_for(blob, blob.fingerprint + "x", blob.layout).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz_text(data, size);
  const std::string bytes = input.starts_with("FULMARST") ? std::string(input) : framed(input);
  const Result<StateBlob> blob = decode_blob(bytes_of(bytes));
  if (blob.ok()) {
    check(*blob);
  } else {
    expect(blob.error().kind == ErrorKind::corrupt && blob.error().text.starts_with("saved state: "));
  }
  return 0;
}
