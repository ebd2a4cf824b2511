// Reads vocabulary files of the World format: one token per line, `ID LITERAL LENGTH`, LITERAL a Python
// string
// ('..' or "..", standing for its UTF-8 bytes) or bytes literal (b'..'). Knows nothing of encoding.
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

// `text` is the file's content; lines end in LF or CRLF, the last one may lack it. `name` stands in errors,
// which name the line, what was found and what was wanted (ErrorKind::corrupt).
Result<Vocabulary> parse_vocabulary(std::string_view text, std::string_view name);

// Likewise, whatever the form: JSON where the text begins with a brace (parse_json_vocabulary), else lines.
Result<Vocabulary> parse_any_vocabulary(std::string_view text, std::string_view name);

// A checksum over all ids and their bytes that does not depend on the form or order of the file.
std::string vocabulary_digest(const Vocabulary& vocabulary);
// True for the World vocabulary (rwkv_vocab_v20230424.txt), in whatever form it came.
bool is_world_vocabulary(const Vocabulary& vocabulary);

}  // namespace fulmar
