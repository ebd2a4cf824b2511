// The stops that mean "the turn is over" in a vocabulary, for requests that name none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/prompt_template.h"
#include "text/tokenizer.h"

namespace fulmar {

// Each stop is an id where the vocabulary has one token for its text (World: 261 for a blank line, 24281 for
// "User", 10060 for U+273F), else a text.
struct StopDefaults {
  std::vector<int32_t> chat_ids;  // of the template
  std::vector<std::string> chat_texts;
  std::vector<int32_t> turn_ids;
  std::vector<std::string> turn_texts;
  std::vector<int32_t> infill_ids;
  std::vector<std::string> infill_texts;
};

StopDefaults stop_defaults(const Tokenizer& tokenizer, const PromptTemplate& chosen = world_template());

}  // namespace fulmar
