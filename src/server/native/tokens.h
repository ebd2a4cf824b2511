// Tokenizes, detokenizes and counts (docs/http.md, "Text and tokens" and "Health and figures").
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kTokenizeFields{
    "tokenize",
    {{"content", Takes::text(), "text"},
     {"add_special", Takes::boolean(), "token 0 in front", "false"},
     {"with_pieces", Takes::boolean(), "each id with its text", "false"}}};
inline constexpr FieldTable kDetokenizeFields{"detokenize", {{"tokens", Takes::list("any"), "ids"}}};
inline constexpr FieldTable kCountFields{"count", {{"text", Takes::text(), "or messages, or contents"}}};

inline constexpr JsonShape kTokens{
    "tokens", R"({"tokens":[{"|":["integer",{"id":"integer","piece":{"|":["string",["integer"]]}}]}],)"
              R"("warnings?":["string"]})"};
inline constexpr JsonShape kContent{"content", R"({"content":"string","warnings?":["string"]})"};
inline constexpr JsonShape kTokenCount{"token_count", R"({"tokens":"integer","warnings?":["string"]})"};

void tokenize(std::shared_ptr<Call> call);      // /tokenize
void detokenize(std::shared_ptr<Call> call);    // /detokenize
void count_tokens(std::shared_ptr<Call> call);  // /v1/tokens/count

}  // namespace fulmar
