// Text to token ids and back, whatever the vocabulary. Knows nothing of models, prompts or requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

// Immutable once built; all functions may be called from any thread. Decoding what was encoded gives the same
// bytes back, less those that no token of a small vocabulary stands for.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `bytes` (any bytes, also no valid UTF-8) to `out`. A byte at which no token begins is
  // left out; see first_unknown.
  virtual void encode(std::string_view bytes, std::vector<int32_t>& out) const = 0;
  // The bytes of one id; may be part of a character. Empty for ids that stand for nothing: the end token,
  // negative ids and those at or above vocabulary_size(). Valid as long as the tokenizer.
  virtual std::string_view bytes(int32_t id) const = 0;
  // One past the highest id that has bytes. A model may have more rows than that.
  virtual int32_t vocabulary_size() const = 0;
  // For people: "world", "bytes" or "file".
  virtual std::string_view name() const = 0;
  // The id that ends a document; nothing when the vocabulary has none.
  virtual std::optional<int32_t> eos() const = 0;

  std::vector<int32_t> encode(std::string_view bytes) const;
  std::string decode(std::span<const int32_t> ids) const;
  // Offset of the first byte that encode leaves out; nothing when all are kept, as with every vocabulary that
  // holds the 256 single bytes.
  std::optional<size_t> first_unknown(std::string_view bytes) const;
  // The one token that stands for exactly these bytes.
  std::optional<int32_t> token_of(std::string_view exact_bytes) const;
};

}  // namespace fulmar
