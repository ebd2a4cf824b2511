// Converts text to token ids and back, with any vocabulary. Knows nothing of models, prompts or requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

// Immutable once built; any thread may call any function. Decoding encoded bytes gives the same bytes, except
// those for which a small vocabulary has no token.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `bytes` (any bytes, also invalid UTF-8) to `out`. Skips a byte at which no token
  // begins; see first_unknown.
  virtual void encode(std::string_view bytes, std::vector<int32_t>& out) const = 0;
  // Returns the bytes of one id, possibly a part of a character. Empty for ids without bytes: the end token,
  // negative ids and those at or above vocabulary_size(). Valid as long as the tokenizer.
  virtual std::string_view bytes(int32_t id) const = 0;
  // Returns one past the highest id that has bytes. A model may have more rows than that.
  virtual int32_t vocabulary_size() const = 0;
  // Returns "world", "bytes" or "file", for people.
  virtual std::string_view name() const = 0;
  // Returns the id that ends a document; nothing when the vocabulary has none.
  virtual std::optional<int32_t> eos() const = 0;

  std::vector<int32_t> encode(std::string_view bytes) const;
  std::string decode(std::span<const int32_t> ids) const;
  // Returns the offset of the first byte that encode skips; nothing when it skips none, as with every
  // vocabulary that has the 256 single bytes.
  std::optional<size_t> first_unknown(std::string_view bytes) const;
  // Returns the one token that has exactly these bytes; nothing if there is none.
  std::optional<int32_t> token_of(std::string_view exact_bytes) const;
};

}  // namespace fulmar
