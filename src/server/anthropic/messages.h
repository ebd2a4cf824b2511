// Anthropic's Messages API: translates its requests to the server's own fields; MessagesWriter writes the
// answers.
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kConversationFields{
    "anthropic_conversation",
    {{"messages", Takes::list(), "turns with text, tool_use and tool_result blocks"},
     {"system", Takes::any(), "text or text blocks"},
     {"tools", Takes::list(), "name, description, input_schema"},
     {"tool_choice", Takes::object(), "type: auto, any, tool or none"},
     {"thinking", Takes::object(), "type: enabled, adaptive or disabled"}}};
inline constexpr FieldTable kMessagesFields{"anthropic_message",
                                            {{"stop_sequences", Takes::texts(), "texts that end an answer"}}};

inline constexpr JsonShape kMessageCount{"anthropic.count", R"({"input_tokens":"integer"})"};

void create_message(std::shared_ptr<Call> call);        // POST /v1/messages
void count_message_tokens(std::shared_ptr<Call> call);  // POST /v1/messages/count_tokens

}  // namespace fulmar
