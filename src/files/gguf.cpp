#include "files/gguf.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace fulmar {
namespace {

constexpr uint64_t kMostKeyBytes = 65535, kMostNameBytes = 63, kMostRank = 4;
constexpr uint64_t kDefaultAlignment = 32, kMostAlignment = 65536;
constexpr uint64_t kLeastKeyBytes = 13, kLeastTensorBytes = 24;  // what one takes in the file at least

struct TypeNumber {
  uint32_t number;
  DType dtype;
};
constexpr TypeNumber kTypes[] = {{0, DType::f32},     {1, DType::f16},   {2, DType::q4_0},  {3, DType::q4_1},
                                 {6, DType::q5_0},    {7, DType::q5_1},  {8, DType::q8_0},  {10, DType::q2_k},
                                 {11, DType::q3_k},   {12, DType::q4_k}, {13, DType::q5_k}, {14, DType::q6_k},
                                 {20, DType::iq4_nl}, {30, DType::bf16}};

Error broken(std::string text) { return {ErrorKind::corrupt, "GGUF: " + std::move(text)}; }

uint64_t size_of_value(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    default:
      return 8;  // also the length before a string: the least that one takes
  }
}

GgufValue value_at(GgufType type, ByteSpan bytes, uint64_t at) {
  switch (type) {
    case GgufType::u8:
      return static_cast<int64_t>(load_at<uint8_t>(bytes, at));
    case GgufType::i8:
      return static_cast<int64_t>(load_at<int8_t>(bytes, at));
    case GgufType::u16:
      return static_cast<int64_t>(load_at<uint16_t>(bytes, at));
    case GgufType::i16:
      return static_cast<int64_t>(load_at<int16_t>(bytes, at));
    case GgufType::u32:
      return static_cast<int64_t>(load_at<uint32_t>(bytes, at));
    case GgufType::i32:
      return static_cast<int64_t>(load_at<int32_t>(bytes, at));
    case GgufType::i64:
      return load_at<int64_t>(bytes, at);
    case GgufType::f32:
      return static_cast<double>(load_at<float>(bytes, at));
    case GgufType::f64:
      return load_at<double>(bytes, at);
    case GgufType::boolean:
      return load_at<uint8_t>(bytes, at) != 0;
    default: {
      const auto value = load_at<uint64_t>(bytes, at);
      if (value > static_cast<uint64_t>(INT64_MAX)) return value;
      return static_cast<int64_t>(value);
    }
  }
}

// Takes one field after the other.
class Cursor {
 public:
  explicit Cursor(ByteSpan file) : file_(file) {}

  uint64_t at() const { return at_; }
  uint64_t remaining() const { return file_.size() - at_; }

  template <class T>
  Result<T> number(std::string_view what) {
    FULMAR_ASSIGN(const ByteSpan raw, take(sizeof(T), what));
    return load_at<T>(raw, 0);
  }

  Result<ByteSpan> take(uint64_t bytes, std::string_view what) {
    if (bytes > remaining()) {
      return broken(
          fmt::format("{} at byte {} needs {} bytes; the file has {} left", what, at_, bytes, remaining()));
    }
    const ByteSpan part = file_.subspan(at_, bytes);
    at_ += bytes;
    return part;
  }

  Result<std::string_view> string(std::string_view what, uint64_t most = UINT64_MAX) {
    FULMAR_ASSIGN(const auto length, number<uint64_t>(what));
    if (length > most) {
      return broken(
          fmt::format("{} at byte {} is {} bytes long; wanted at most {}", what, at_, length, most));
    }
    FULMAR_ASSIGN(const ByteSpan raw, take(length, what));
    return as_text(raw);
  }

 private:
  ByteSpan file_;
  uint64_t at_ = 0;
};

Result<GgufType> read_type(Cursor& cursor, std::string_view key) {
  FULMAR_ASSIGN(const auto number, cursor.number<uint32_t>("a value's type"));
  if (number > static_cast<uint32_t>(GgufType::f64)) {
    return broken(fmt::format("'{}' has values of type {}; wanted 0 to 12", printable(key), number));
  }
  return static_cast<GgufType>(number);
}

Result<GgufArray> read_array(Cursor& cursor, std::string_view key) {
  GgufArray array;
  FULMAR_ASSIGN(array.type, read_type(cursor, key));
  if (array.type == GgufType::array) {
    return broken(fmt::format("'{}' is an array of arrays", printable(key)));
  }
  FULMAR_ASSIGN(array.count, cursor.number<uint64_t>("an array's count"));
  if (array.count > cursor.remaining() / size_of_value(array.type)) {
    return broken(fmt::format("'{}' claims {} elements; the file has {} bytes left", printable(key),
                              array.count, cursor.remaining()));
  }
  if (array.type != GgufType::string) {
    FULMAR_ASSIGN(array.raw, cursor.take(array.count * size_of_value(array.type), key));
    return array;
  }
  Cursor ahead = cursor;
  for (uint64_t i = 0; i < array.count; i++) FULMAR_TRY(ahead.string("an array's string"));
  FULMAR_ASSIGN(array.raw, cursor.take(ahead.at() - cursor.at(), key));
  return array;
}

Result<GgufValue> read_value(Cursor& cursor, std::string_view key) {
  FULMAR_ASSIGN(const GgufType type, read_type(cursor, key));
  if (type == GgufType::array) {
    FULMAR_ASSIGN(const GgufArray array, read_array(cursor, key));
    return GgufValue(array);
  }
  if (type == GgufType::string) {
    FULMAR_ASSIGN(const std::string_view text, cursor.string("a text value"));
    return GgufValue(text);
  }
  FULMAR_ASSIGN(const ByteSpan raw, cursor.take(size_of_value(type), "a value"));
  return value_at(type, raw, 0);
}

// Reads the keys. Checks the alignment's type here, since its value does not show the type in the file.
Status read_keys(Cursor& cursor, uint64_t count, GgufFile& file, uint64_t& alignment) {
  for (uint64_t i = 0; i < count; i++) {
    FULMAR_ASSIGN(const std::string_view key, cursor.string("a key", kMostKeyBytes));
    if (key.empty() || !simdjson::validate_utf8(key.data(), key.size())) {
      return broken(fmt::format("key {} is '{}'; wanted UTF-8 that is not empty", i, printable(key)));
    }
    const bool aligns = key == "general.alignment";
    Cursor ahead = cursor;
    if (aligns) {
      FULMAR_ASSIGN(const GgufType type, read_type(ahead, key));
      if (type != GgufType::u32) return broken("general.alignment is no 32-bit unsigned integer");
    }
    FULMAR_ASSIGN(const GgufValue value, read_value(cursor, key));
    if (!file.metadata.emplace(key, value).second) {
      return broken(fmt::format("key '{}' stands there twice", printable(key)));
    }
    if (aligns) alignment = static_cast<uint64_t>(std::get<int64_t>(value));
  }
  if (alignment == 0 || alignment > kMostAlignment || !std::has_single_bit(alignment)) {
    return broken(
        fmt::format("general.alignment is {}; wanted a power of two up to {}", alignment, kMostAlignment));
  }
  return {};
}

// A tensor with its place in the data section.
struct LocatedTensor {
  StoredTensor tensor;
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

Result<DType> read_format(Cursor& cursor, std::string_view name) {
  FULMAR_ASSIGN(const auto number, cursor.number<uint32_t>("a tensor's type"));
  for (const TypeNumber& known : kTypes) {
    if (known.number == number) return known.dtype;
  }
  return Error{ErrorKind::unsupported,
               fmt::format("GGUF: tensor '{}' has type {}, which is not supported", printable(name), number)};
}

Result<LocatedTensor> read_tensor(Cursor& cursor, uint64_t alignment) {
  LocatedTensor placed;
  StoredTensor& tensor = placed.tensor;
  FULMAR_ASSIGN(const std::string_view name, cursor.string("a tensor's name", kMostNameBytes));
  FULMAR_TRY(check_tensor_name(name));
  tensor.name = name;
  FULMAR_ASSIGN(const auto rank, cursor.number<uint32_t>("a tensor's rank"));
  if (rank > kMostRank) {
    return broken(fmt::format("tensor '{}' has {} dimensions; wanted at most {}", name, rank, kMostRank));
  }
  for (uint32_t i = 0; i < rank; i++) {
    FULMAR_ASSIGN(const auto size, cursor.number<uint64_t>("a tensor's dimension"));
    if (size == 0 || size > static_cast<uint64_t>(INT64_MAX)) {
      return broken(fmt::format("tensor '{}' has a dimension of {}; wanted 1 to 2^63-1", name, size));
    }
    tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
  }
  FULMAR_ASSIGN(tensor.dtype, read_format(cursor, name));
  FULMAR_ASSIGN(placed.begin, cursor.number<uint64_t>("a tensor's offset"));
  const Format& format = format_of(tensor.dtype);
  const std::optional<int64_t> count = checked_product(tensor.shape);
  const int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (!count || *count > INT64_MAX / format.bytes) {
    return broken(fmt::format("tensor '{}' has an impossible shape {}", name, shape_text(tensor.shape)));
  }
  if (row % format.block != 0) {
    return broken(fmt::format("tensor '{}' has rows of {} weights; {} wants a multiple of {}", name, row,
                              format.name, format.block));
  }
  if (placed.begin % alignment != 0) {
    return broken(
        fmt::format("tensor '{}' begins at {}; wanted a multiple of {}", name, placed.begin, alignment));
  }
  placed.bytes = bytes_for(tensor.dtype, *count);
  tensor.strides = row_major_strides(tensor.shape);
  return placed;
}

// Places the tensors' data, which must be inside the section, each byte in one tensor only.
Status place(std::vector<LocatedTensor>& all, ByteSpan section, GgufFile& file) {
  std::vector<const LocatedTensor*> sorted;
  for (const LocatedTensor& placed : all) sorted.push_back(&placed);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
  uint64_t end = 0;
  for (const LocatedTensor* placed : sorted) {
    const std::string& name = placed->tensor.name;
    if (placed->begin < end) {
      return broken(fmt::format("tensor '{}' begins at {}, inside the one before it, which ends at {}", name,
                                placed->begin, end));
    }
    if (__builtin_add_overflow(placed->begin, placed->bytes, &end)) {
      return broken(fmt::format("tensor '{}' begins at {}, behind any file", name, placed->begin));
    }
    if (end > section.size()) {
      return broken(
          fmt::format("the data of '{}' ends at byte {} of the data section, which has {}: {} bytes "
                      "are missing, as if the file were cut off",
                      name, end, section.size(), end - section.size()));
    }
  }
  for (LocatedTensor& placed : all) {
    placed.tensor.data = section.data() + placed.begin;
    file.tensors.push_back(std::move(placed.tensor));
  }
  return {};
}

Status check_version(uint32_t version) {
  if (version == 2 || version == 3) return {};
  if (version != 0 && (version & 0xffff) == 0) return broken("the file is big-endian");
  return broken(fmt::format("version {}; wanted 2 or 3", version));
}

}  // namespace

bool looks_like_gguf(ByteSpan file) { return file.size() >= 4 && as_text(file.first(4)) == "GGUF"; }

Result<GgufFile> read_gguf(ByteSpan bytes) {
  if (!looks_like_gguf(bytes)) return broken("the file does not begin with 'GGUF'");
  Cursor cursor(bytes.subspan(4));
  FULMAR_ASSIGN(const auto version, cursor.number<uint32_t>("the version"));
  FULMAR_TRY(check_version(version));
  FULMAR_ASSIGN(const auto tensors, cursor.number<uint64_t>("the number of tensors"));
  FULMAR_ASSIGN(const auto keys, cursor.number<uint64_t>("the number of keys"));
  if (keys > cursor.remaining() / kLeastKeyBytes || tensors > cursor.remaining() / kLeastTensorBytes) {
    return broken(
        fmt::format("{} keys and {} tensors cannot lie in a file of {} bytes", keys, tensors, bytes.size()));
  }
  GgufFile file;
  uint64_t alignment = kDefaultAlignment;
  FULMAR_TRY(read_keys(cursor, keys, file, alignment));
  std::vector<LocatedTensor> placed;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < tensors; i++) {
    FULMAR_ASSIGN(LocatedTensor one, read_tensor(cursor, alignment));
    if (!names.insert(one.tensor.name).second) {
      return broken(fmt::format("tensor '{}' stands there twice", one.tensor.name));
    }
    placed.push_back(std::move(one));
  }
  const uint64_t head = cursor.at() + 4;
  const uint64_t begin = std::min<uint64_t>((head + alignment - 1) / alignment * alignment, bytes.size());
  FULMAR_TRY(place(placed, bytes.subspan(begin), file));
  return file;
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  const auto found = metadata.find(key);
  const auto* value = found == metadata.end() ? nullptr : std::get_if<int64_t>(&found->second);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const auto found = metadata.find(key);
  const auto* value = found == metadata.end() ? nullptr : std::get_if<double>(&found->second);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  const auto found = metadata.find(key);
  const auto* value = found == metadata.end() ? nullptr : std::get_if<std::string_view>(&found->second);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

const GgufArray* GgufFile::array(std::string_view key) const {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : std::get_if<GgufArray>(&found->second);
}

std::vector<std::string_view> strings_of(const GgufArray& array) {
  std::vector<std::string_view> out;
  if (array.type != GgufType::string) return out;
  for (uint64_t at = 0, i = 0; i < array.count; i++) {
    const auto length = load_at<uint64_t>(array.raw, at);
    out.push_back(as_text(array.raw.subspan(at + sizeof(uint64_t), length)));
    at += sizeof(uint64_t) + length;
  }
  return out;
}

std::vector<int64_t> integers_of(const GgufArray& array) {
  std::vector<int64_t> out;
  if (array.type == GgufType::string) return out;
  for (uint64_t i = 0; i < array.count; i++) {
    const GgufValue value = value_at(array.type, array.raw, i * size_of_value(array.type));
    const auto* number = std::get_if<int64_t>(&value);
    if (number == nullptr) return {};
    out.push_back(*number);
  }
  return out;
}

std::optional<uint32_t> gguf_type_of(DType dtype) {
  for (const TypeNumber& known : kTypes) {
    if (known.dtype == dtype) return known.number;
  }
  return std::nullopt;
}

}  // namespace fulmar
