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

// True for the World vocabulary (rwkv_vocab_v20230424.txt) in any of its three known spellings: LF, LF
// without the last one, CRLF.
bool is_world_vocabulary(std::string_view text);

}  // namespace fulmar
