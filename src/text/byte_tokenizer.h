// The vocabulary of models with 256 rows: the id of a byte is its value. There is no end token.
#pragma once

#include <array>

#include "text/tokenizer.h"

namespace fulmar {

class ByteTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kVocabularySize = 256;

  ByteTokenizer();

  using Tokenizer::encode;
  void encode(std::string_view bytes, std::vector<int32_t>& out) const override;
  std::string_view bytes(int32_t id) const override;
  int32_t vocabulary_size() const override { return kVocabularySize; }
  std::string_view name() const override { return "bytes"; }
  std::optional<int32_t> eos() const override { return std::nullopt; }

 private:
  std::array<char, kVocabularySize> all_;
};

}  // namespace fulmar
