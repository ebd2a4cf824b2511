// Parser of the World vocabulary format. Every check stands before anything is built from the line.
#include "text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/sha256.h"
#include "base/utf8.h"
#include "text/python_literal.h"
#include "text/vocabulary_json.h"

namespace fulmar {
namespace {

constexpr std::string_view kWorldDigest = "1e6e1adc8d10aeee528862d6d6ce66db9c4ae254a7e6636f81cd6765ca053219";

// Returns a piece of the file in a form that fits a one-line message.
std::string quoted(std::string_view found) {
  constexpr size_t kShown = 40;
  std::string text;
  for (const char c : to_utf8(found.substr(0, kShown))) {
    text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return fmt::format("'{}{}'", text, found.size() > kShown ? "..." : "");
}

Error wrong(std::string_view text) { return {ErrorKind::corrupt, std::string(text)}; }

Result<int64_t> parse_number(std::string_view text, std::string_view what, int64_t most) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) {
    return wrong(fmt::format("found {} {}, wanted a number from 0 to {}", what, quoted(text), most));
  }
  return value;
}

Result<VocabularyEntry> parse_line(std::string_view line) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return wrong(fmt::format("found {}, wanted 'ID LITERAL LENGTH'", quoted(line)));
  }
  FULMAR_ASSIGN(const int64_t id, parse_number(line.substr(0, first), "id", kMaxVocabularyId));
  FULMAR_ASSIGN(std::string bytes, parse_python_literal(line.substr(first + 1, last - first - 1)));
  FULMAR_ASSIGN(const int64_t length, parse_number(line.substr(last + 1), "length", kMaxVocabularyFileBytes));
  if (static_cast<size_t>(length) != bytes.size()) {
    return wrong(fmt::format("found length {}, wanted {}, the bytes of the literal", length, bytes.size()));
  }
  if (bytes.empty()) return wrong("found an empty token, wanted at least one byte");
  return VocabularyEntry{static_cast<int32_t>(id), std::move(bytes)};
}

// Remembers on which line each id and each byte string came first.
class Seen {
 public:
  Status add(const VocabularyEntry& entry, int64_t line) {
    if (const auto [at, is_new] = ids_.emplace(entry.id, line); !is_new) {
      return wrong(fmt::format("found id {} again, wanted it once (line {})", entry.id, at->second));
    }
    if (const auto [at, is_new] = bytes_.emplace(entry.bytes, line); !is_new) {
      return wrong(
          fmt::format("found token {} again, wanted it once (line {})", quoted(entry.bytes), at->second));
    }
    return {};
  }

 private:
  std::unordered_map<int32_t, int64_t> ids_;
  std::unordered_map<std::string, int64_t> bytes_;
};

Error at_line(std::string_view name, int64_t line, const Error& error) {
  return {error.kind, fmt::format("vocabulary {}, line {}: {}", name, line, error.text)};
}

}  // namespace

Result<Vocabulary> parse_vocabulary(std::string_view text, std::string_view name) {
  if (text.size() > kMaxVocabularyFileBytes) {
    return wrong(fmt::format("vocabulary {}: found {} bytes, wanted at most {}", name, text.size(),
                             kMaxVocabularyFileBytes));
  }
  Vocabulary vocabulary;
  Seen seen;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    Result<VocabularyEntry> entry = parse_line(line);
    if (!entry) return at_line(name, number, entry.error());
    if (const Status added = seen.add(*entry, number); !added) return at_line(name, number, added.error());
    vocabulary.entries.push_back(std::move(entry).value());
  }
  if (vocabulary.entries.empty()) {
    return wrong(fmt::format("vocabulary {}: found no tokens, wanted at least one", name));
  }
  return vocabulary;
}

Result<Vocabulary> parse_any_vocabulary(std::string_view text, std::string_view name) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && text[first] == '{';
  return json ? parse_json_vocabulary(text, name) : parse_vocabulary(text, name);
}

std::string vocabulary_digest(const Vocabulary& vocabulary) {
  std::vector<const VocabularyEntry*> sorted;
  for (const VocabularyEntry& entry : vocabulary.entries) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  std::string all;
  for (const VocabularyEntry* entry : sorted) {
    for (const uint32_t number :
         {static_cast<uint32_t>(entry->id), static_cast<uint32_t>(entry->bytes.size())}) {
      for (int shift = 0; shift < 32; shift += 8) all += static_cast<char>(number >> shift & 0xFF);
    }
    all += entry->bytes;
  }
  return sha256_hex(all);
}

bool is_world_vocabulary(const Vocabulary& vocabulary) {
  return vocabulary_digest(vocabulary) == kWorldDigest;
}

}  // namespace fulmar
