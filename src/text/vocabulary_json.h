// Reads vocabularies written as JSON, in the forms that model repositories have. Knows nothing of encoding.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/vocabulary.h"

namespace fulmar {

// Parses one of three forms: the tokenizer.json of Hugging Face's tokenizers (model.vocab maps token to id),
// such a map alone, and web-rwkv's map from id to a string or an array of bytes. The first two write tokens
// in the byte-level alphabet, in which printable Latin-1 stands for its byte and characters from U+0100 on
// for the others in order. Id 0 is the end of a text and left out. Errors are those of parse_vocabulary, with
// the token instead of the line.
Result<Vocabulary> parse_json_vocabulary(std::string_view text, std::string_view name);

}  // namespace fulmar
