// From drawn tokens to text that may be shown: stop texts are matched on bytes, whole characters are
// released, and token records travel with the text they end in. Pure; knows no engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/event.h"
#include "text/stop_matcher.h"
#include "text/utf8.h"

namespace fulmar {

class OutputText {
 public:
  OutputText() = default;
  // `texts`: stop texts; `include_stop`: release the matched text, too.
  OutputText(std::vector<std::string> texts, bool include_stop, bool keep_records);

  // Adds one drawn token's bytes. Returns what may be shown now.
  std::string push(std::string_view bytes, TokenRecord record);
  // Nothing more will come: releases what a possible stop text held back. An unfinished character is dropped.
  std::string finish();

  // Records whose text has been released since the last call.
  std::vector<TokenRecord> take_records();

  bool hit() const { return hit_.has_value(); }
  const std::string& stop_text() const { return hit_->text; }

  // Tokens (by index of push) that lie wholly before byte `offset` of the output.
  size_t tokens_before(size_t offset) const;
  // The first token that contains a byte of the match, or of the earliest possible match that is still open.
  size_t match_token() const { return tokens_before(hit_->start); }
  std::optional<size_t> pending_token() const;
  // Tokens that put at least one byte before the match; all of them without a match.
  size_t tokens_shown() const;

 private:
  struct Hit {
    size_t start;
    std::string text;
  };

  std::string release(std::string_view bytes);

  std::optional<StopMatcher> matcher_;  // absent without stop texts: nothing is ever held back
  bool keep_records_ = false;
  Utf8Stream utf8_;
  std::vector<size_t> end_;  // end offset of each token's bytes
  size_t released_ = 0;      // bytes let through so far
  std::vector<TokenRecord> records_;
  size_t records_taken_ = 0;
  std::optional<Hit> hit_;
};

}  // namespace fulmar
