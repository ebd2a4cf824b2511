// Greedy longest match over a vocabulary file, as the RWKV World models are trained: no pre-tokenisation, no
// merges, no normalisation.
#pragma once

#include <memory>

#include "text/byte_trie.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace fulmar {

class WorldTokenizer : public Tokenizer {
 public:
  // Builds the tokenizer; is_world: the vocabulary is the World one, not only of its format.
  WorldTokenizer(const Vocabulary& vocabulary, bool is_world);

  using Tokenizer::encode;
  void encode(std::string_view bytes, std::vector<int32_t>& out) const override;
  std::string_view bytes(int32_t id) const override;
  int32_t vocabulary_size() const override { return static_cast<int32_t>(places_.size()); }
  std::string_view name() const override { return is_world_ ? "world" : "file"; }
  // Returns id 0, unless the file gives it bytes.
  std::optional<int32_t> eos() const override;

 private:
  struct TokenBytes {
    size_t begin = 0;
    size_t length = 0;
  };

  bool is_world_;
  std::string pool_;                // the bytes of all tokens
  std::vector<TokenBytes> places_;  // by id
  ByteTrie trie_;
};

}  // namespace fulmar
