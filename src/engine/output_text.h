// Turns drawn tokens into text that may be shown: matches stop texts on bytes, releases whole characters, and
// releases token records with the text that they end in. Pure; knows no engine.
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
  // Starts an empty text. `texts` may be null: then nothing is held back. keep_records: take_records() will
  // be called. `until`: see StopRules.
  OutputText(std::shared_ptr<const StopTexts> texts, bool include_stop, bool keep_records,
             std::vector<std::string> until = {});

  // Appends one drawn token's bytes; returns the text that may be shown now.
  std::string push(std::string_view bytes, TokenRecord record);
  // Ends the text; returns what a possible stop text held back. An incomplete character is dropped. Further
  // calls return nothing.
  std::string finish();

  // Returns the records whose text was released since the last call; those after a matched stop text never
  // come.
  std::vector<TokenRecord> take_records();

  bool hit() const { return matcher_ && matcher_->hit(); }
  const std::string& stop_text() const { return matcher_->hit()->text; }

  // Returns the index, by push, of the first token with a byte of the match; only with hit().
  size_t match_token() const { return token_at(matcher_->hit()->start); }
  // Returns the same for the earliest match that is still possible.
  std::optional<size_t> pending_token() const;
  // Returns the number of tokens with at least one byte that is shown; all of them without a match.
  size_t tokens_shown() const;

 private:
  size_t token_at(size_t offset) const;  // the index of the token with this byte of the output
  std::string match(std::string_view bytes);

  std::optional<StopMatcher> matcher_;
  // texts that must come, in order, before stop texts no longer end the output
  std::vector<std::string> until_;
  std::string unmatched_;     // end of the output that may begin the first of them
  bool unstoppable_ = false;  // all of them have come
  bool include_stop_ = false;
  bool keep_records_ = false;
  bool finished_ = false;
  Utf8Stream utf8_;
  std::vector<size_t> end_;           // end offset of each token's bytes
  size_t released_ = 0;               // bytes released by the matcher
  std::vector<TokenRecord> records_;  // not yet taken; the last one belongs to the last token
};

}  // namespace fulmar
