// What every tokenizer can do with the virtual functions alone.
#include "text/tokenizer.h"

namespace fulmar {

std::vector<int32_t> Tokenizer::encode(std::string_view bytes) const {
  std::vector<int32_t> ids;
  encode(bytes, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) text += bytes(id);
  return text;
}

std::optional<int32_t> Tokenizer::token_of(std::string_view exact_bytes) const {
  // Longest match takes a token that is the whole text whole.
  const std::vector<int32_t> ids = encode(exact_bytes);
  if (ids.size() != 1 || bytes(ids.front()) != exact_bytes) return std::nullopt;
  return ids.front();
}

std::optional<size_t> Tokenizer::first_unknown(std::string_view text) const {
  size_t at = 0;
  for (const int32_t id : encode(text)) {
    const std::string_view token = bytes(id);
    if (text.substr(at, token.size()) != token) return at;
    at += token.size();
  }
  if (at == text.size()) return std::nullopt;
  return at;
}

}  // namespace fulmar
