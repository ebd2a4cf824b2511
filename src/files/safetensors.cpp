#include "files/safetensors.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>
#include <unordered_set>

#include "base/write_file.h"

namespace fulmar {
namespace {

namespace dom = simdjson::dom;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the format's own library
constexpr size_t kMaxDepth = 8;               // the deepest a genuine header goes is 3
constexpr size_t kMaxRank = 5;

Error broken(std::string text) { return {ErrorKind::corrupt, "safetensors: " + std::move(text)}; }

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeName, 9> kTypes = {{{"F32", DType::f32},
                                             {"F16", DType::f16},
                                             {"BF16", DType::bf16},
                                             {"F64", DType::f64},
                                             {"I64", DType::i64},
                                             {"I32", DType::i32},
                                             {"U8", DType::u8},
                                             {"I8", DType::i8},
                                             {"F8_E4M3", DType::f8_e4m3}}};

Result<DType> dtype_called(std::string_view type, std::string_view tensor) {
  for (const TypeName& known : kTypes) {
    if (known.name == type) return known.dtype;
  }
  return Error{ErrorKind::unsupported,
               fmt::format("safetensors: '{}' has type {}, which is not supported", tensor, printable(type))};
}

std::string_view name_in_header(DType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& t) { return t.dtype == dtype; })
      ->name;
}

// A tensor with its place in the buffer.
struct BufferTensor {
  StoredTensor tensor;
  uint64_t begin = 0;
  uint64_t end = 0;
};

Result<uint64_t> read_unsigned(dom::element element, std::string_view name, std::string_view field) {
  uint64_t value = 0;
  if (element.get(value) != simdjson::SUCCESS || value > static_cast<uint64_t>(INT64_MAX)) {
    return broken(fmt::format("{} of '{}' is {}; wanted an integer from 0 to 2^63-1", field, name,
                              printable(simdjson::minify(element))));
  }
  return value;
}

Result<std::vector<int64_t>> read_list(dom::element entry, std::string_view name, const char* field) {
  dom::array list;
  if (entry[field].get(list) != simdjson::SUCCESS) {
    return broken(fmt::format("'{}' has no list '{}'", name, field));
  }
  std::vector<int64_t> values;
  for (const dom::element element : list) {
    if (values.size() == kMaxRank) {
      return broken(fmt::format("{} of '{}' has more than {} members", field, name, kMaxRank));
    }
    FULMAR_ASSIGN(const uint64_t value, read_unsigned(element, name, field));
    values.push_back(static_cast<int64_t>(value));
  }
  return values;
}

Result<BufferTensor> read_entry(std::string_view name, dom::element entry, ByteSpan buffer) {
  FULMAR_TRY(check_tensor_name(name));
  BufferTensor placed;
  placed.tensor.name = name;
  std::string_view type;
  if (entry["dtype"].get(type) != simdjson::SUCCESS) return broken(fmt::format("'{}' has no dtype", name));
  FULMAR_ASSIGN(placed.tensor.dtype, dtype_called(type, name));
  FULMAR_ASSIGN(placed.tensor.shape, read_list(entry, name, "shape"));
  FULMAR_ASSIGN(const std::vector<int64_t> offsets, read_list(entry, name, "data_offsets"));
  if (offsets.size() != 2) return broken(fmt::format("data_offsets of '{}' are not two numbers", name));
  placed.begin = static_cast<uint64_t>(offsets[0]);
  placed.end = static_cast<uint64_t>(offsets[1]);

  const std::optional<int64_t> count = checked_product(placed.tensor.shape);
  uint64_t bytes = 0;
  if (!count || __builtin_mul_overflow(static_cast<uint64_t>(*count), size_of(placed.tensor.dtype), &bytes)) {
    return broken(fmt::format("'{}' has an impossible shape {}", name, shape_text(placed.tensor.shape)));
  }
  if (placed.end < placed.begin || placed.end > buffer.size() || placed.end - placed.begin != bytes) {
    return broken(fmt::format("'{}' {} needs {} bytes; its data_offsets are {} to {} of {}", name,
                              shape_text(placed.tensor.shape), bytes, placed.begin, placed.end,
                              buffer.size()));
  }
  placed.tensor.strides = row_major_strides(placed.tensor.shape);
  placed.tensor.data = buffer.data() + placed.begin;
  return placed;
}

Status read_metadata(dom::element entry, std::map<std::string, std::string>& metadata) {
  dom::object object;
  if (entry.get(object) != simdjson::SUCCESS) return broken("__metadata__ is not an object");
  for (const dom::key_value_pair field : object) {
    std::string_view text;
    if (field.value.get(text) != simdjson::SUCCESS) {
      return broken(fmt::format("__metadata__ '{}' is not text", printable(field.key)));
    }
    metadata.insert_or_assign(std::string(field.key), std::string(text));
  }
  return {};
}

Status check_tiling(std::span<const BufferTensor> sorted, uint64_t buffer_size) {
  uint64_t end = 0;
  for (const BufferTensor& placed : sorted) {
    if (placed.begin != end) {
      return broken(fmt::format("data of '{}' begins at {}; wanted {} ({})", placed.tensor.name, placed.begin,
                                end, placed.begin < end ? "overlap" : "gap"));
    }
    end = placed.end;
  }
  if (end != buffer_size) {
    return broken(fmt::format("tensors cover {} bytes of the data; there are {}", end, buffer_size));
  }
  return {};
}

// Returns the header's text without the length before it.
Result<ByteSpan> header_of(ByteSpan file) {
  if (file.size() < kLengthBytes)
    return broken(fmt::format("{} bytes are too few for a header", file.size()));
  const auto length = load_at<uint64_t>(file, 0);
  if (length > kMaxHeader) {
    return broken(fmt::format("header of {} bytes; at most {} are allowed", length, kMaxHeader));
  }
  return part_of(file, kLengthBytes, length, "safetensors: header");
}

}  // namespace

bool looks_like_safetensors(ByteSpan file) {
  return file.size() > kLengthBytes && load_at<uint64_t>(file, 0) <= kMaxHeader &&
         std::to_integer<char>(file[kLengthBytes]) == '{';
}

Result<CheckpointParts> read_safetensors(ByteSpan file) {
  FULMAR_ASSIGN(const ByteSpan header, header_of(file));
  const ByteSpan buffer = file.subspan(kLengthBytes + header.size());
  dom::parser parser(kMaxHeader + simdjson::SIMDJSON_PADDING);
  if (parser.allocate(header.size(), kMaxDepth) != simdjson::SUCCESS) {
    return Error{ErrorKind::resource, "safetensors: no memory for the header"};
  }
  const simdjson::padded_string padded(as_text(header));
  dom::element document;
  dom::object root;
  const simdjson::error_code error = parser.parse(padded).get(document);
  if (error != simdjson::SUCCESS) {
    return broken(fmt::format("header is not JSON: {}", simdjson::error_message(error)));
  }
  if (document.get(root) != simdjson::SUCCESS) return broken("header is not a JSON object");

  CheckpointParts parts;
  parts.description = fmt::format("safetensors, {}", size_text(file.size()));
  std::vector<BufferTensor> placed;
  std::unordered_set<std::string_view> names;
  for (const dom::key_value_pair field : root) {
    if (!names.insert(field.key).second) return broken(fmt::format("'{}' comes twice", printable(field.key)));
    if (field.key == "__metadata__") {
      FULMAR_TRY(read_metadata(field.value, parts.metadata));
      continue;
    }
    FULMAR_ASSIGN(BufferTensor one, read_entry(field.key, field.value, buffer));
    placed.push_back(std::move(one));
  }
  if (placed.empty()) return broken("holds no tensors");
  std::sort(placed.begin(), placed.end(), [](const BufferTensor& a, const BufferTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  FULMAR_TRY(check_tiling(placed, buffer.size()));
  for (BufferTensor& one : placed) parts.tensors.push_back(std::move(one.tensor));
  return parts;
}

namespace {

// Returns a name or a metadata value as JSON text.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string header_text(std::span<const StoredTensor> tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      header += fmt::format("{}:{},", json_text(key), json_text(value));
    header.back() = '}';
    header += ',';
  }
  uint64_t offset = 0;
  for (const StoredTensor& tensor : tensors) {
    header +=
        fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}},", json_text(tensor.name),
                    name_in_header(tensor.dtype), shape_text(tensor.shape), offset, offset + tensor.bytes());
    offset += tensor.bytes();
  }
  header.back() = '}';
  // The data starts at a multiple of 8; spaces after the object are allowed.
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

void write_payload(std::ostream& file, const StoredTensor& tensor) {
  if (tensor.contiguous()) {
    file.write(reinterpret_cast<const char*>(tensor.data), static_cast<std::streamsize>(tensor.bytes()));
    return;
  }
  const std::vector<std::byte> gathered = gather_contiguous(tensor);
  file.write(reinterpret_cast<const char*>(gathered.data()), static_cast<std::streamsize>(gathered.size()));
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                         const std::map<std::string, std::string>& metadata) {
  if (tensors.empty()) {
    return Error{ErrorKind::invalid, fmt::format("{}: no tensors to write", path.string())};
  }
  return write_whole_file(path, [&](std::ostream& file) {
    const std::string header = header_text(tensors, metadata);
    const uint64_t length = header.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const StoredTensor& tensor : tensors) {
      if (!file) break;
      write_payload(file, tensor);
    }
  });
}

}  // namespace fulmar
