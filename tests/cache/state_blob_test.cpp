// The serial form of a state: nothing of it can change unnoticed, and files without a header's checksum are
// read.
#include "cache/state_blob.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace fulmar {
namespace {

StateBlob small_blob() {
  StateBlob blob;
  blob.fingerprint = "0123456789abcdef";
  blob.layout.n_layer = 1;
  blob.layout.n_embd = 4;
  blob.layout.n_head = 2;
  blob.layout.head_size = 2;
  blob.layout.fields = kShiftsAndWkv;
  blob.tokens = 77;
  blob.turn = 3;
  blob.payload.resize(blob.layout.slot_bytes());
  for (size_t i = 0; i < blob.payload.size(); i++) blob.payload[i] = static_cast<std::byte>(i * 7);
  return blob;
}

// As written before headers had a checksum of their own.
std::vector<std::byte> without_header_sum(std::vector<std::byte> bytes) {
  uint32_t header = 0;
  std::memcpy(&header, bytes.data() + 12, 4);
  const std::string text(reinterpret_cast<const char*>(bytes.data()) + 16, header);
  const size_t line = text.rfind('\n', text.size() - 2) + 1;
  EXPECT_TRUE(text.substr(line).starts_with("header_xxh3_128 "));
  bytes.erase(bytes.begin() + 16 + static_cast<std::ptrdiff_t>(line), bytes.begin() + 16 + header);
  const auto shorter = static_cast<uint32_t>(line);
  std::memcpy(bytes.data() + 12, &shorter, 4);
  return bytes;
}

void expect_equal(const Result<StateBlob>& read, const StateBlob& wanted) {
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->fingerprint, wanted.fingerprint);
  EXPECT_EQ(read->tokens, wanted.tokens);
  EXPECT_EQ(read->turn, wanted.turn);
  EXPECT_EQ(read->payload, wanted.payload);
}

TEST(StateBlob, ComesBackAsItWas) {
  const StateBlob blob = small_blob();
  expect_equal(decode_blob(encode_blob(blob)), blob);
}

TEST(StateBlob, SaysWhichAdapterMadeIt) {
  StateBlob blob = small_blob();
  EXPECT_EQ(decode_blob(encode_blob(blob))->adapter, "");
  blob.adapter = "nines@4f2a91c0 at 0.5";
  const auto read = decode_blob(encode_blob(blob));
  expect_equal(read, blob);
  EXPECT_EQ(read->adapter, blob.adapter);
}

TEST(StateBlob, EveryFlippedBitIsNoticed) {
  const std::vector<std::byte> bytes = encode_blob(small_blob());
  for (size_t i = 0; i < bytes.size(); i++) {
    for (int bit = 0; bit < 8; bit++) {
      std::vector<std::byte> broken = bytes;
      broken[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_FALSE(decode_blob(broken).ok()) << "bit " << bit << " of byte " << i << " of " << bytes.size();
    }
  }
}

TEST(StateBlob, AHeaderWithoutAChecksumOfItsOwnIsRead) {
  const StateBlob blob = small_blob();
  const std::vector<std::byte> bytes = without_header_sum(encode_blob(blob));
  expect_equal(decode_blob(bytes), blob);
  std::vector<std::byte> broken = bytes;
  broken.back() ^= std::byte{1};
  EXPECT_FALSE(decode_blob(broken).ok());
}

TEST(StateBlob, FieldsAreReadAsTheyAreWrittenAndNoOthers) {
  constexpr FieldSpec kOthers[] = {{"memory", FieldSpec::Shape::channels, FieldSpec::Type::f32}};
  StateBlob blob = small_blob();
  blob.layout.fields = kOthers;
  blob.payload.resize(blob.layout.slot_bytes());
  const std::vector<std::byte> bytes = without_header_sum(encode_blob(blob));
  expect_equal(decode_blob(bytes), blob);
  EXPECT_EQ(decode_blob(bytes)->layout, blob.layout);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t at = text.find("memory:channels:f32");
  ASSERT_NE(at, std::string::npos);
  for (const std::string other : {"memory:channelx:f32", "memory:channels:f64", "memory:channelsff32",
                                  "mem\nry:channels:f32", "mem ory:channel:f32", "memory_memory_memo:"}) {
    std::vector<std::byte> changed = bytes;
    std::memcpy(changed.data() + at, other.data(), std::min<size_t>(other.size(), 19));
    const auto read = decode_blob(changed);
    ASSERT_FALSE(read.ok()) << other;
    EXPECT_NE(read.error().text.find("'fields' is"), std::string::npos) << read.error().text;
  }
}

TEST(StateBlob, NothingFollowsTheChecksums) {
  std::vector<std::byte> bytes = without_header_sum(encode_blob(small_blob()));
  uint32_t header = 0;
  std::memcpy(&header, bytes.data() + 12, 4);
  for (const std::string line : {"x 1\n", "header_xxh3_128 0\n", "\n"}) {
    std::vector<std::byte> longer = bytes;
    const auto* text = reinterpret_cast<const std::byte*>(line.data());
    longer.insert(longer.begin() + 16 + header, text, text + line.size());
    const auto size = static_cast<uint32_t>(header + line.size());
    std::memcpy(longer.data() + 12, &size, 4);
    const auto read = decode_blob(longer);
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_NE(read.error().text.find("header's checksum"), std::string::npos) << read.error().text;
  }
}

}  // namespace
}  // namespace fulmar
