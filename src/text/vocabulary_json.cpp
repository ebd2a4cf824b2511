#include "text/vocabulary_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "base/utf8.h"

namespace fulmar {
namespace {

namespace dom = simdjson::dom;

Error wrong(std::string_view name, std::string_view text) {
  return {ErrorKind::corrupt, fmt::format("vocabulary {}: {}", name, text)};
}

bool stands_for_itself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// Returns the byte of each character of the byte-level alphabet; -1: none.
std::array<int, 512> byte_level_alphabet() {
  std::array<int, 512> byte_of;
  byte_of.fill(-1);
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; byte++) {
    byte_of[stands_for_itself(byte) ? byte : next++] = static_cast<int>(byte);
  }
  return byte_of;
}

// Decodes a token, which simdjson found valid UTF-8; a character of the alphabet has one or two bytes.
std::optional<std::string> from_byte_level(std::string_view token) {
  static const std::array<int, 512> byte_of = byte_level_alphabet();
  std::string bytes;
  for (size_t i = 0; i < token.size(); i++) {
    uint32_t character = static_cast<unsigned char>(token[i]);
    if (character >= 0xE0) return std::nullopt;
    if (character >= 0xC0)
      character = (character & 0x1F) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3F);
    if (character >= byte_of.size() || byte_of[character] < 0) return std::nullopt;
    bytes += static_cast<char>(byte_of[character]);
  }
  return bytes;
}

class Collector {
 public:
  explicit Collector(std::string_view name) : name_(name) {}

  Status add(int64_t id, std::string bytes) {
    if (id == 0) return {};
    if (id < 0 || id > kMaxVocabularyId) {
      return wrong(name_, fmt::format("found id {}, wanted 0 to {}", id, kMaxVocabularyId));
    }
    if (bytes.empty()) return wrong(name_, fmt::format("id {} stands for no bytes", id));
    if (!ids_.insert(id).second) return wrong(name_, fmt::format("found id {} again, wanted it once", id));
    if (!tokens_.insert(bytes).second) {
      return wrong(name_, fmt::format("id {} stands for bytes that another id stands for", id));
    }
    vocabulary_.entries.push_back({static_cast<int32_t>(id), std::move(bytes)});
    return {};
  }

  Result<Vocabulary> finish() {
    if (vocabulary_.entries.empty()) return wrong(name_, "found no tokens, wanted at least one");
    std::sort(vocabulary_.entries.begin(), vocabulary_.entries.end(),
              [](const VocabularyEntry& a, const VocabularyEntry& b) { return a.id < b.id; });
    return std::move(vocabulary_);
  }

 private:
  std::string_view name_;
  Vocabulary vocabulary_;
  std::unordered_set<int64_t> ids_;
  std::unordered_set<std::string> tokens_;
};

Status add_token(Collector& all, std::string_view name, std::string_view token, int64_t id) {
  if (id == 0) return {};
  std::optional<std::string> bytes = from_byte_level(token);
  if (bytes) return all.add(id, std::move(*bytes));
  return wrong(name, fmt::format("the token of id {} is not written in the byte-level alphabet", id));
}

Result<std::string> bytes_of(std::string_view name, dom::element value, int64_t id) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return std::string(text);
  dom::array list;
  std::string bytes;
  const Error fault = wrong(name, fmt::format("id {} stands for neither a string nor an array of bytes", id));
  if (value.get(list) != simdjson::SUCCESS) return fault;
  for (const dom::element element : list) {
    uint64_t byte = 0;
    if (element.get(byte) != simdjson::SUCCESS || byte > 255) return fault;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

Status add_entry(Collector& all, std::string_view name, dom::key_value_pair entry) {
  int64_t id = 0;
  if (entry.value.get(id) == simdjson::SUCCESS) return add_token(all, name, entry.key, id);
  const auto [end, error] = std::from_chars(entry.key.data(), entry.key.data() + entry.key.size(), id);
  if (error != std::errc() || end != entry.key.data() + entry.key.size()) {
    return wrong(name, "is neither a map from tokens to ids nor one from ids to tokens");
  }
  FULMAR_ASSIGN(std::string bytes, bytes_of(name, entry.value, id));
  return all.add(id, std::move(bytes));
}

}  // namespace

Result<Vocabulary> parse_json_vocabulary(std::string_view text, std::string_view name) {
  if (text.size() > kMaxVocabularyFileBytes) {
    return wrong(name,
                 fmt::format("found {} bytes, wanted at most {}", text.size(), kMaxVocabularyFileBytes));
  }
  dom::parser parser;
  dom::element document;
  if (const auto error = parser.parse(simdjson::padded_string(text)).get(document)) {
    return wrong(name, fmt::format("is no JSON: {}", simdjson::error_message(error)));
  }
  dom::object map;
  const bool tokenizer = document.at_pointer("/model/vocab").get(map) == simdjson::SUCCESS;
  if (!tokenizer && document.get(map) != simdjson::SUCCESS) return wrong(name, "is no JSON object");
  Collector all(name);
  for (const dom::key_value_pair entry : map) FULMAR_TRY(add_entry(all, name, entry));
  return all.finish();
}

}  // namespace fulmar
