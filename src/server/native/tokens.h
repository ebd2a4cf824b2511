// Text to tokens and back, and counting (docs/http.md, "Text and tokens" and "Health and figures").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void tokenize(std::shared_ptr<Call> call);      // /tokenize
void detokenize(std::shared_ptr<Call> call);    // /detokenize
void count_tokens(std::shared_ptr<Call> call);  // /v1/tokens/count

}  // namespace fulmar
