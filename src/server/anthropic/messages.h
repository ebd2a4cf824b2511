// Anthropic's Messages API: translates its requests to the server's own fields; MessagesWriter writes the
// answers.
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

// Of blocks and tools. Earlier thinking is not fed again; how long the model thinks is its own business.
inline constexpr std::string_view kBlockMembers =
    R"([{"":"role","content":[{"?":{"text":{"":"type text citations cache_control"},)"
    R"("tool_use":{"":"type id name input cache_control"},)"
    R"("tool_result":{"":"type tool_use_id is_error cache_control",)"
    R"("content":[{"":"type text citations cache_control"}]}}}]}])";
inline constexpr std::string_view kSystemMembers = R"([{"":"type text citations cache_control"}])";
inline constexpr std::string_view kOwnToolMembers =
    R"([{"?":{"":{"":"name description input_schema strict cache_control"},)"
    R"("custom":{"":"type name description input_schema strict cache_control"}}}])";

inline constexpr FieldTable kConversationFields{
    "anthropic_conversation",
    {{"messages", Takes::list(kBlockMembers), "turns with text, tool_use and tool_result blocks"},
     {"system", Takes::any(kSystemMembers), "text or text blocks"},
     {"tools", Takes::list(kOwnToolMembers), "name, description, input_schema"},
     {"tool_choice", Takes::object(R"({"":"type name disable_parallel_tool_use"})"),
      "type: auto, any, tool or none"},
     {"thinking", Takes::object(R"({"":"type ~budget_tokens"})"), "type: enabled, adaptive or disabled"}}};
inline constexpr FieldTable kMessagesFields{"anthropic_message",
                                            {{"stop_sequences", Takes::texts(), "texts that end an answer"}}};

inline constexpr JsonShape kMessageCount{"anthropic.count", R"({"input_tokens":"integer"})"};

void create_message(std::shared_ptr<Call> call);        // POST /v1/messages
void count_message_tokens(std::shared_ptr<Call> call);  // POST /v1/messages/count_tokens

}  // namespace fulmar
