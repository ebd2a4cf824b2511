// Ids are bytes.
#include "text/byte_tokenizer.h"

#include "base/meter.h"

namespace fulmar {

ByteTokenizer::ByteTokenizer() {
  for (size_t i = 0; i < all_.size(); ++i) all_[i] = static_cast<char>(i);
}

void ByteTokenizer::encode(std::string_view bytes, std::vector<int32_t>& out) const {
  count_work(bytes.size());
  out.reserve(out.size() + bytes.size());
  for (const char c : bytes) out.push_back(static_cast<unsigned char>(c));
}

std::string_view ByteTokenizer::bytes(int32_t id) const {
  if (id < 0 || id >= kVocabularySize) return {};
  return {&all_[static_cast<size_t>(id)], 1};
}

}  // namespace fulmar
