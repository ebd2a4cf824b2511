// Stops derived from a vocabulary's own tokens.
#include "text/stop_defaults.h"

#include <string_view>

namespace fulmar {
namespace {

void add_stop(const Tokenizer& tokenizer, std::string_view text, std::vector<int32_t>& ids,
              std::vector<std::string>& texts) {
  if (const auto id = tokenizer.token_of(text)) {
    ids.push_back(*id);
  } else {
    texts.emplace_back(text);
  }
}

}  // namespace

StopDefaults stop_defaults(const Tokenizer& tokenizer, const PromptTemplate& chosen) {
  StopDefaults stops;
  for (const std::string_view text : chosen.chat_stops) {
    add_stop(tokenizer, text, stops.chat_ids, stops.chat_texts);
  }
  for (const std::string_view text : chosen.turn_stops) {
    add_stop(tokenizer, text, stops.turn_ids, stops.turn_texts);
  }
  add_stop(tokenizer, "\u273F", stops.infill_ids, stops.infill_texts);
  return stops;
}

}  // namespace fulmar
