#include "cache/state_blob.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "tensor/convert.h"

namespace fulmar {

namespace {

constexpr char kMagic[8] = {'F', 'U', 'L', 'M', 'A', 'R', 'S', 'T'};
constexpr uint32_t kVersion = 1;
constexpr size_t kPrefix = sizeof(kMagic) + 2 * sizeof(uint32_t);
constexpr uint32_t kMaxHeader = 4096;

std::string checksum(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

constexpr std::string_view kPayloadSum = "xxh3_128", kHeaderSum = "header_xxh3_128", kFields = "fields";

// Returns a line of the header that holds a checksum.
std::string sum_line(std::string_view key, std::span<const std::byte> bytes) {
  return fmt::format("{} {}\n", key, checksum(bytes));
}
constexpr size_t kSumDigits = 32;
constexpr size_t kHeaderSumLine = kHeaderSum.size() + kSumDigits + 2;

std::optional<DType> dtype_named(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

Error corrupt(std::string text) { return {ErrorKind::corrupt, "saved state: " + std::move(text)}; }

using Fields = std::map<std::string, std::string, std::less<>>;

Fields parse_fields(std::string_view header) {
  Fields fields;
  while (!header.empty()) {
    const size_t end = std::min(header.find('\n'), header.size());
    const std::string_view line = header.substr(0, end);
    const size_t space = line.find(' ');
    if (space != std::string_view::npos) fields.emplace(line.substr(0, space), line.substr(space + 1));
    header.remove_prefix(std::min(end + 1, header.size()));
  }
  return fields;
}

Result<int64_t> number(const Fields& fields, std::string_view key) {
  const auto found = fields.find(key);
  if (found == fields.end()) return corrupt(fmt::format("'{}' is missing", key));
  int64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  const auto parsed = std::from_chars(found->second.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) {
    return corrupt(fmt::format("'{}' is '{}'; wanted a whole number", key, found->second));
  }
  return value;
}

Result<DType> float_type(const Fields& fields, std::string_view key) {
  const auto found = fields.find(key);
  const auto dtype = found == fields.end() ? std::nullopt : dtype_named(found->second);
  if (!dtype) return corrupt(fmt::format("'{}' is not f32, f16 or bf16", key));
  return *dtype;
}

// Checks the header. Its last line has the checksum of what comes before in `covered`, which reaches up to
// the header's end; a header without one ends with the payload's.
Status check_header(std::span<const std::byte> covered, std::string_view header) {
  const size_t line = header.rfind('\n', header.size() < 2 ? 0 : header.size() - 2);
  const std::string_view last = header.substr(line == std::string_view::npos ? 0 : line + 1);
  if (last.starts_with(fmt::format("{} ", kPayloadSum))) return {};
  if (covered.size() < kHeaderSumLine ||
      last != sum_line(kHeaderSum, covered.first(covered.size() - kHeaderSumLine))) {
    return corrupt("the header's checksum does not match its contents");
  }
  return {};
}

// Counts that grow with each token and turn: far below where a sum could overflow.
constexpr int64_t kMostCounted = int64_t{1} << 53;

Result<int64_t> count(const Fields& fields, std::string_view key) {
  FULMAR_ASSIGN(const int64_t value, number(fields, key));
  if (value > kMostCounted) {
    return corrupt(fmt::format("'{}' is {}; wanted at most {}", key, value, kMostCounted));
  }
  return value;
}

// The largest sizes any real model has, so that the arithmetic on a hostile header cannot overflow.
constexpr int64_t kMaxLayers = 1 << 12, kMaxWidth = 1 << 20;

// Words of fields' shapes and types in the header, by their enumerators.
constexpr std::string_view kShapes[] = {"channels", "head_vectors", "head_matrices"};
constexpr std::string_view kTypes[] = {"shift", "wkv", "f32"};

std::string text_of(const FieldList& fields) {
  std::vector<std::string> each;
  for (const FieldSpec& field : fields) {
    each.push_back(fmt::format("{}:{}:{}", field.name.view(), kShapes[static_cast<size_t>(field.shape)],
                               kTypes[static_cast<size_t>(field.type)]));
  }
  return fmt::format("{}", fmt::join(each, " "));
}

// Returns the enumerator that a word stands for.
template <class Enum, size_t N>
std::optional<Enum> value_of(const std::string_view (&words)[N], std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found == std::end(words)) return std::nullopt;
  return static_cast<Enum>(found - std::begin(words));
}

// Parses NAME:SHAPE:TYPE. How a field is rolled back is the model's business and is not stored.
std::optional<FieldSpec> parse_field(std::string_view text) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  const std::string_view name = text.substr(0, first);
  constexpr std::string_view kNameBytes = "abcdefghijklmnopqrstuvwxyz0123456789_";
  const bool named = !name.empty() && name.size() <= FieldName::kLongest &&
                     name.find_first_not_of(kNameBytes) == std::string_view::npos;
  if (!named || second == std::string_view::npos) return std::nullopt;
  const auto shape = value_of<FieldSpec::Shape>(kShapes, text.substr(first + 1, second - first - 1));
  const auto type = value_of<FieldSpec::Type>(kTypes, text.substr(second + 1));
  if (!shape || !type) return std::nullopt;
  return FieldSpec{FieldName(name), *shape, *type};
}

Result<FieldList> fields_of(const Fields& header) {
  const auto line = header.find(kFields);
  if (line == header.end() || line->second == text_of(kShiftsAndWkv)) return FieldList(kShiftsAndWkv);
  std::vector<FieldSpec> list;
  for (std::string_view rest = line->second; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    const auto field = parse_field(rest.substr(0, end));
    if (!field || list.size() == FieldList::kMost) {
      return corrupt(fmt::format("'{}' is '{}'; wanted at most {} of NAME:SHAPE:TYPE", kFields, line->second,
                                 FieldList::kMost));
    }
    list.push_back(*field);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return FieldList(list);
}

Result<StateLayout> layout_of(const Fields& fields) {
  StateLayout layout{.fields = FieldList::none()};
  FULMAR_ASSIGN(layout.fields, fields_of(fields));
  FULMAR_ASSIGN(layout.n_layer, number(fields, "n_layer"));
  FULMAR_ASSIGN(layout.n_embd, number(fields, "n_embd"));
  FULMAR_ASSIGN(layout.n_head, number(fields, "n_head"));
  FULMAR_ASSIGN(layout.head_size, number(fields, "head_size"));
  FULMAR_ASSIGN(layout.shift_dtype, float_type(fields, "shift_dtype"));
  FULMAR_ASSIGN(layout.wkv_dtype, float_type(fields, "wkv_dtype"));
  const bool sane = layout.n_layer >= 1 && layout.n_layer <= kMaxLayers && layout.n_embd >= 1 &&
                    layout.n_embd <= kMaxWidth && layout.n_head >= 1 && layout.n_head <= layout.n_embd &&
                    layout.head_size <= kMaxWidth && layout.n_head * layout.head_size == layout.n_embd;
  if (!sane) return corrupt("the layout's sizes contradict each other");
  return layout;
}

// Converts one part of a slot, element by element, from one type to another.
void convert_part(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, size_t count,
                  std::vector<float>& scratch) {
  scratch.resize(count);
  to_f32(from_dtype, from, scratch);
  from_f32(scratch, to_dtype, to);
}

}  // namespace

std::string adapter_words(const std::string& identity) {
  return identity.empty() ? "no adapter" : "adapter " + identity;
}

std::vector<std::byte> encode_blob(const StateBlob& blob) {
  const StateLayout& layout = blob.layout;
  const std::string adapter = blob.adapter.empty() ? "" : fmt::format("adapter {}\n", blob.adapter);
  const std::string fields = text_of(layout.fields);
  const bool usual = fields == text_of(kShiftsAndWkv);
  const std::string facts = fmt::format(
      "fingerprint {}\n{}n_layer {}\nn_embd {}\nn_head {}\nhead_size {}\nshift_dtype {}\nwkv_dtype {}\n{}"
      "tokens {}\nturn {}\npayload {}\n{}",
      blob.fingerprint, adapter, layout.n_layer, layout.n_embd, layout.n_head, layout.head_size,
      name_of(layout.shift_dtype), name_of(layout.wkv_dtype),
      usual ? "" : fmt::format("{} {}\n", kFields, fields), blob.tokens, blob.turn, blob.payload.size(),
      sum_line(kPayloadSum, blob.payload));
  const size_t covered = kPrefix + facts.size();
  const auto header_bytes = static_cast<uint32_t>(facts.size() + kHeaderSumLine);
  std::vector<std::byte> bytes(kPrefix + header_bytes + blob.payload.size());
  std::byte* out = bytes.data();
  std::memcpy(out, kMagic, sizeof(kMagic));
  std::memcpy(out + 8, &kVersion, 4);
  std::memcpy(out + 12, &header_bytes, 4);
  std::memcpy(out + kPrefix, facts.data(), facts.size());
  const std::string sum = sum_line(kHeaderSum, std::span(bytes).first(covered));
  std::memcpy(out + covered, sum.data(), sum.size());
  if (!blob.payload.empty())
    std::memcpy(out + kPrefix + header_bytes, blob.payload.data(), blob.payload.size());
  return bytes;
}

Result<StateBlob> decode_blob(std::span<const std::byte> bytes) {
  uint32_t version = 0, header_bytes = 0;
  if (bytes.size() < kPrefix || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) {
    return corrupt("this is not a Fulmar state (it does not begin with FULMARST)");
  }
  std::memcpy(&version, bytes.data() + 8, 4);
  std::memcpy(&header_bytes, bytes.data() + 12, 4);
  if (version != kVersion) return corrupt(fmt::format("version {} found, {} wanted", version, kVersion));
  if (header_bytes > kMaxHeader || header_bytes > bytes.size() - kPrefix) {
    return corrupt(
        fmt::format("the header claims {} bytes; {} are there", header_bytes, bytes.size() - kPrefix));
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kPrefix, header_bytes);
  FULMAR_TRY(check_header(bytes.first(kPrefix + header_bytes), header));
  const Fields fields = parse_fields(header);
  const auto payload = bytes.subspan(kPrefix + header_bytes);

  StateBlob blob;
  const auto fingerprint = fields.find("fingerprint");
  if (fingerprint == fields.end()) return corrupt("'fingerprint' is missing");
  blob.fingerprint = fingerprint->second;
  if (const auto adapter = fields.find("adapter"); adapter != fields.end()) blob.adapter = adapter->second;
  FULMAR_ASSIGN(blob.layout, layout_of(fields));
  FULMAR_ASSIGN(blob.tokens, count(fields, "tokens"));
  FULMAR_ASSIGN(blob.turn, count(fields, "turn"));
  FULMAR_ASSIGN(const int64_t payload_bytes, number(fields, "payload"));
  if (static_cast<uint64_t>(payload_bytes) != payload.size() || payload.size() != blob.layout.slot_bytes()) {
    return corrupt(fmt::format("{} payload bytes found; the header says {} and the layout needs {}",
                               payload.size(), payload_bytes, blob.layout.slot_bytes()));
  }
  const auto sum = fields.find(kPayloadSum);
  const std::string found = checksum(payload);
  if (sum == fields.end() || sum->second != found) return corrupt("the checksum does not match its contents");
  blob.payload.assign(payload.begin(), payload.end());
  return blob;
}

Result<std::vector<std::byte>> payload_for(const StateBlob& blob, const std::string& fingerprint,
                                           const StateLayout& layout) {
  if (blob.fingerprint != fingerprint) {
    return Error{ErrorKind::invalid,
                 fmt::format("the state belongs to model {}; this model is {} (other weights, or the same "
                             "quantised in another way)",
                             blob.fingerprint.substr(0, 16), fingerprint.substr(0, 16))};
  }
  const std::string found = text_of(blob.layout.fields), wanted = text_of(layout.fields);
  if (found != wanted) {
    return Error{ErrorKind::invalid,
                 fmt::format("the state has the fields '{}'; this model's are '{}'", found, wanted)};
  }
  StateLayout same_types = layout;
  same_types.shift_dtype = blob.layout.shift_dtype;
  same_types.wkv_dtype = blob.layout.wkv_dtype;
  same_types.fields = blob.layout.fields;  // which differ in their roll-back alone
  if (same_types != blob.layout || blob.payload.size() != blob.layout.slot_bytes()) {
    return Error{ErrorKind::invalid,
                 fmt::format("the state has {} layers of {} channels; this model has {} of {}",
                             blob.layout.n_layer, blob.layout.n_embd, layout.n_layer, layout.n_embd)};
  }
  if (layout == blob.layout) return blob.payload;

  std::vector<std::byte> payload(layout.slot_bytes());
  std::vector<float> scratch;
  for (int64_t layer = 0; layer < layout.n_layer; layer++) {
    for (size_t i = 0; i < layout.fields.size(); i++) {
      const FieldSpec& field = layout.fields[i];
      convert_part(blob.payload.data() + blob.layout.offset(layer, i), blob.layout.dtype(field),
                   payload.data() + layout.offset(layer, i), layout.dtype(field),
                   static_cast<size_t>(layout.count(field)), scratch);
    }
  }
  return payload;
}

Status check_finite(std::span<const std::byte> payload, const StateLayout& layout) {
  std::vector<float> values;
  for (int64_t layer = 0; layer < layout.n_layer; layer++) {
    for (size_t i = 0; i < layout.fields.size(); i++) {
      const FieldSpec& field = layout.fields[i];
      values.resize(static_cast<size_t>(layout.count(field)));
      to_f32(layout.dtype(field), payload.data() + layout.offset(layer, i), values);
      const auto found =
          std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
      if (found == values.end()) continue;
      return Error{ErrorKind::invalid,
                   fmt::format("the state's {} of layer {} holds {}; wanted finite numbers",
                               field.name.view(), layer, *found)};
    }
  }
  return {};
}

}  // namespace fulmar
