// From drawn tokens to text that may be shown: stop texts are matched on bytes, whole characters are
// released, and token records travel with the text they end in. Pure; knows no engine.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "engine/event.h"
#include "text/stop_matcher.h"

namespace fulmar {

class OutputText {
 public:
  OutputText() = default;
  // `texts` may be null: nothing is ever held back then. keep_records: take_records() will be called.
  // `until`: see StopRules.
  OutputText(std::shared_ptr<const StopTexts> texts, bool include_stop, bool keep_records,
             std::vector<std::string> until = {});

  // Adds one drawn token's bytes. Returns what may be shown now.
  std::string push(std::string_view bytes, TokenRecord record);
  // Nothing more will come: decides what a possible stop text held back. An unfinished character is dropped.
  // Further calls return nothing.
  std::string finish();

  // Records whose text has been released since the last call; those behind a matched stop text never come.
  std::vector<TokenRecord> take_records();

  bool hit() const { return matcher_ && matcher_->hit(); }
  const std::string& stop_text() const { return matcher_->hit()->text; }

  // By index of push: the first token that holds a byte of the match; only with hit().
  size_t match_token() const { return token_at(matcher_->hit()->start); }
  // The same for the earliest match that is still possible.
  std::optional<size_t> pending_token() const;
  // Tokens with at least one byte that is shown; all of them without a match.
  size_t tokens_shown() const;

 private:
  size_t token_at(size_t offset) const;  // the token that holds this byte of the output
  std::string match(std::string_view bytes);

  std::optional<StopMatcher> matcher_;
  std::vector<std::string> until_;  // what has to come before texts end the output no more, in order
  std::string unmatched_;           // what the output ends with and may be the beginning of the first of them
  bool unstoppable_ = false;        // all of them have come
  bool include_stop_ = false;
  bool keep_records_ = false;
  bool finished_ = false;
  Utf8Stream utf8_;
  std::vector<size_t> end_;           // where each token's bytes end
  size_t released_ = 0;               // bytes let through by the matcher
  std::vector<TokenRecord> records_;  // not yet taken; the last one belongs to the last token
};

}  // namespace fulmar
