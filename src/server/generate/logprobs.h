// Log-probabilities in both shapes of the openai family: legacy lists (docs/http.md, "Completions") and
// content entries ("Chats").
#pragma once

#include <span>

#include "engine/event.h"
#include "net/json_writer.h"
#include "server/core/shape.h"
#include "text/tokenizer.h"

namespace fulmar {

// The value of a chat choice's "logprobs".
inline constexpr JsonShape kContentLogprobs{
    "content_logprobs",
    R"({"content":[{"token":"string","logprob":"number","bytes":["integer"],)"
    R"("top_logprobs":[{"token":"string","logprob":"number","bytes":["integer"]}]}],"refusal":null})"};
void write_content_logprobs(JsonWriter& json, std::span<const TokenRecord> tokens,
                            const Tokenizer& tokenizer);

inline constexpr JsonShape kLegacyLogprobs{
    "legacy_logprobs", R"({"tokens":["string"],"token_logprobs":["number|null"],"text_offset":["integer"],)"
                       R"("top_logprobs":[{"|":[{"*":"number"},null]}]})"};
// Writes the value of a completion choice's "logprobs". `offset`: characters of the choice's text before the
// first token; advanced by those written. The first token of a scored prompt has no log-probability:
// `first_unknown` writes null for it.
void write_legacy_logprobs(JsonWriter& json, std::span<const TokenRecord> tokens, const Tokenizer& tokenizer,
                           int64_t& offset, bool first_unknown);

// Counts the code points that begin in `text`.
int64_t count_characters(std::string_view text);

}  // namespace fulmar
