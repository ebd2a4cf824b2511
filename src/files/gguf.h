// The GGUF container, versions 2 and 3: metadata and tensors as views of the file. Knows no models.
//
//   "GGUF"  u32 version  u64 tensors  u64 keys
//   key:    string, u32 type, value                      string = u64 length, bytes
//   tensor: string, u32 rank, u64 dims innermost first, u32 type, u64 offset
//   zeros up to the alignment, then the data section, from whose start the offsets count
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"
#include "files/bytes.h"
#include "files/checkpoint.h"

namespace fulmar {

bool looks_like_gguf(ByteSpan file);

enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// `count` values of one type, contiguous as in the file; strings were checked to be inside.
struct GgufArray {
  GgufType type = GgufType::u8;
  uint64_t count = 0;
  ByteSpan raw;
};

// Integers of every width are i64, except values above its range; floats are f64.
using GgufValue = std::variant<int64_t, uint64_t, double, bool, std::string_view, GgufArray>;

struct GgufFile {
  std::unordered_map<std::string_view, GgufValue> metadata;
  std::vector<StoredTensor> tensors;  // row-major, outermost dimension first, in the order of the file

  // Returns the value; nothing if the key is absent or of another kind.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  const GgufArray* array(std::string_view key) const;
};

// Parses a file, without copying: everything points into `file`. Every length and count is checked against
// the available bytes before anything is allocated. Errors: corrupt, for other versions and byte orders,
// empty and repeated keys and names, nested arrays, dimensions of 0, rows that are not whole blocks, data
// that is unaligned, overlaps or ends after the file, as in a truncated download: the error says how much is
// missing; unsupported, for tensor types without a DType.
Result<GgufFile> read_gguf(ByteSpan file);

// Returns the strings of an array of strings.
std::vector<std::string_view> strings_of(const GgufArray& array);
// Returns the numbers of an array of integers; empty for other arrays.
std::vector<int64_t> integers_of(const GgufArray& array);

// Returns the number of a format in GGUF files; nothing if GGUF has none.
std::optional<uint32_t> gguf_type_of(DType dtype);

}  // namespace fulmar
