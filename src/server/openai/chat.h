// Chats of the openai family (docs/http.md, "Chats").
#pragma once

#include <memory>

#include "server/core/field.h"

namespace fulmar {

class Call;

// Of a field `prediction`.
inline constexpr std::string_view kPredictionMembers =
    R"({"":"type","content":[{"":"type text cache_control"}]})";

inline constexpr FieldTable kChatFields{
    "chat",
    {{"n", Takes::integer(1, 128), "answers to one prompt", "1"},
     {"logprobs", Takes::boolean(), "log-probabilities of the answer's tokens", "false"},
     {"top_logprobs", Takes::integer(0, 20), "alternatives of each token, with logprobs", "0"},
     {"prediction", Takes::object(kPredictionMembers),
      "type content, content: what the answer may be, taken as a draft"},
     {"modalities", Takes::texts(), "[\"text\"]"},
     {"store", Takes::boolean(), "ignored"},
     {"user", Takes::text(), "ignored"},
     {"runtime", Takes::text(), "ignored: the weights are kept as they were loaded"}}};
inline constexpr FieldTable kSplitFields{"split",
                                         {{"reasoning_format", Takes::word("auto deepseek none"),
                                           "thinking apart from the answer; none: within it", R"("auto")"}}};

void chat_on_v1(std::shared_ptr<Call> call);      // `messages` on the shared paths
void lightning_chat(std::shared_ptr<Call> call);  // /openai/v1/chat/completions

}  // namespace fulmar
