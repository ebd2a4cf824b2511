// A vocabulary for synthetic models, which have none: every id has a text, so that generated ids can be
// served. Ids below 256 are bytes for encoding; the words mean nothing.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace fulmar {

class StandInTokenizer : public Tokenizer {
 public:
  explicit StandInTokenizer(int64_t rows);

  using Tokenizer::encode;
  void encode(std::string_view bytes, std::vector<int32_t>& out) const override;
  std::string_view bytes(int32_t id) const override;
  int32_t vocabulary_size() const override { return static_cast<int32_t>(words_.size()); }
  std::string_view name() const override { return "stand-in"; }
  std::optional<int32_t> eos() const override { return std::nullopt; }

 private:
  std::vector<std::string> words_;
};

}  // namespace fulmar
