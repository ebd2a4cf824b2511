// Reads vocabulary files of the World format: one token per line, `ID LITERAL LENGTH`. LITERAL is a Python
// string ('..' or "..", which stands for its UTF-8 bytes) or a bytes literal (b'..'). Knows nothing of
// encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct VocabularyEntry {
  int32_t id = 0;     // 0..kMaxVocabularyId, distinct
  std::string bytes;  // at least one, distinct
};

struct Vocabulary {
  std::vector<VocabularyEntry> entries;  // in order of the file; at least one
};

inline constexpr int32_t kMaxVocabularyId = (1 << 20) - 1;
inline constexpr size_t kMaxVocabularyFileBytes = size_t{16} << 20;

// Parses a file's content; lines end in LF or CRLF, the last one may have no end. Errors (corrupt) begin with
// `name` and give the line, what was found and what was wanted.
Result<Vocabulary> parse_vocabulary(std::string_view text, std::string_view name);

// Parses either format: JSON if the text begins with a brace (parse_json_vocabulary), else lines.
Result<Vocabulary> parse_any_vocabulary(std::string_view text, std::string_view name);

// Returns a checksum of all ids and their bytes that does not depend on the format or order of the file.
std::string vocabulary_digest(const Vocabulary& vocabulary);
// Returns whether it is the World vocabulary (rwkv_vocab_v20230424.txt), whatever format it came in.
bool is_world_vocabulary(const Vocabulary& vocabulary);

}  // namespace fulmar
