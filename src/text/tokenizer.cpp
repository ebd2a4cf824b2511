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
  if (ids.size() != 1) return std::nullopt;
  return ids.front();
}

}  // namespace fulmar
