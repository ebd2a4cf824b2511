// Text completion from `prompt` (docs/http.md, "Completions").
#pragma once

#include <memory>

#include "server/core/field.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kCompletionFields{
    "completion",
    {{"prompt", Takes::any(), "text, token ids, or an array of either; or send messages or contents"},
     {"suffix", Takes::text(), "what follows the hole that the model fills"},
     {"n", Takes::integer(1, 128), "answers to one prompt", "1"},
     {"best_of", Takes::integer(1, 128), "drawn to choose the n likeliest from; absent: n"},
     {"echo", Takes::boolean(), "the prompt before the answer", "false"},
     {"logprobs", Takes::integer(0, 20), "alternatives of each token"}}};

void complete_text(std::shared_ptr<Call> call);

}  // namespace fulmar
