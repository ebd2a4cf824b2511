#include "app/bench/stand_in_tokenizer.h"

#include <algorithm>

namespace fulmar {

StandInTokenizer::StandInTokenizer(int64_t rows) {
  constexpr int64_t kLetters = 26;
  for (int64_t id = 0; id < rows; id++) {
    std::string word = " ";
    for (int64_t rest = id; word.size() == 1 || rest > 0; rest /= kLetters) {
      word += static_cast<char>('a' + rest % kLetters);
    }
    words_.push_back(std::move(word));
  }
}

void StandInTokenizer::encode(std::string_view bytes, std::vector<int32_t>& out) const {
  const auto last = static_cast<int32_t>(words_.size()) - 1;
  for (const char c : bytes) out.push_back(std::min<int32_t>(static_cast<unsigned char>(c), last));
}

std::string_view StandInTokenizer::bytes(int32_t id) const {
  if (id < 0 || id >= vocabulary_size()) return {};
  return words_[static_cast<size_t>(id)];
}

}  // namespace fulmar
