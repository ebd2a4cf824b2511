// A vocabulary of every byte and a few tokens of several.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace fulmar::testing {

// Id 0 ends a text; byte b is id b + 1; the longer ones follow.
class ListTokenizer : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> longer) {
    bytes_.emplace_back();
    for (int byte = 0; byte < 256; ++byte) bytes_.emplace_back(1, static_cast<char>(byte));
    for (std::string& token : longer) bytes_.push_back(std::move(token));
  }
  using Tokenizer::encode;
  void encode(std::string_view, std::vector<int32_t>&) const override {}
  std::string_view bytes(int32_t id) const override {
    return id < 0 || id >= vocabulary_size() ? std::string_view() : bytes_[static_cast<size_t>(id)];
  }
  int32_t vocabulary_size() const override { return static_cast<int32_t>(bytes_.size()); }
  std::string_view name() const override { return "list"; }
  std::optional<int32_t> eos() const override { return 0; }

 private:
  std::vector<std::string> bytes_;
};

}  // namespace fulmar::testing
