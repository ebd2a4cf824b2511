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

// `count` values of one type behind each other, as the file has them; strings were checked to lie inside.
struct GgufArray {
  GgufType type = GgufType::u8;
  uint64_t count = 0;
  ByteSpan raw;
};

// Integers of every width are i64, save those above its range, floats f64.
using GgufValue = std::variant<int64_t, uint64_t, double, bool, std::string_view, GgufArray>;

struct GgufFile {
  std::unordered_map<std::string_view, GgufValue> metadata;
  std::vector<StoredTensor> tensors;  // row-major, outermost dimension first, in the order of the file

  // Nothing where the key is absent or of another kind.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  const GgufArray* array(std::string_view key) const;
};

// Everything points into `file`. Every length and count is checked against the bytes there are before
// anything is allocated. Refused ("corrupt"): other versions and byte orders, empty and repeated keys and
// names, nested arrays, dimensions of 0, rows that are no whole blocks, data that is unaligned, overlaps or
// ends behind the file, which a cut download does: the error says how much is missing. Refused
// ("unsupported"): tensor types without a DType.
Result<GgufFile> read_gguf(ByteSpan file);

// The strings of an array of strings.
std::vector<std::string_view> strings_of(const GgufArray& array);
// The numbers of an array of integers; empty for other arrays.
std::vector<int64_t> integers_of(const GgufArray& array);

// The number that stands for a format in a file; nothing where GGUF has none.
std::optional<uint32_t> gguf_type_of(DType dtype);

}  // namespace fulmar
