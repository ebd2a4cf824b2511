// Turns `messages` and the fields around them into prompt text, for every chat route.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/core/fields.h"
#include "server/models/served_model.h"
#include "text/chat_template.h"

namespace fulmar {

// Of the messages of a chat. Earlier thinking is not fed again.
inline constexpr std::string_view kChatMessageMembers =
    R"([{"":"role name tool_call_id cache_control ~refusal ~annotations ~reasoning ~reasoning_content )"
    R"(!function_call !images !audio !prefix !partial",)"
    R"("content":[{"?":{"text":{"":"type text cache_control"}}}],)"
    R"("tool_calls":[{"":"id type index","function":{"":"name arguments"}}]}])";
inline constexpr std::string_view kTemplateArguments = R"({"":"enable_thinking"})";

// What read_messages, read_think_mode and render_messages read.
inline constexpr FieldTable kMessageFields{
    "messages",
    {{"messages", Takes::list(kChatMessageMembers), "the conversation: objects with role and content"},
     {"system", Takes::text(), "stands before the system messages"}}};
inline constexpr FieldTable kThinkFields{
    "thinking",
    {{"think_type", Takes::text(), "none, fast, free, en, enShort, enLong, preferChinese"},
     {"think", Takes::boolean(), "whether the model thinks first"},
     {"enable_think", Takes::boolean(), "likewise"},
     {"chat_template_kwargs", Takes::object(kTemplateArguments), "enable_thinking: likewise"},
     {"reasoning_effort", Takes::text(), "none, minimal, low, medium, high or xhigh"},
     {"reasoning", Takes::any(R"({"":"effort"})"), "effort: as reasoning_effort"},
     {"force_reasoning", Takes::boolean(), "keeps a think block from being closed at once"}}};
inline constexpr FieldTable kWordingFields{
    "wording",
    {{"add_generation_prompt", Takes::boolean(), "false: the model goes on with the last turn", "true"},
     {"user_name", Takes::text(), "of the role in the prompt"},
     {"assistant_name", Takes::text(), "likewise"},
     {"system_name", Takes::text(), "likewise"}}};

// Differences between the chat routes (docs/http.md, "Prompts").
struct ChatRoute {
  ThinkMode think_off;  // the route's spelling of an empty think block
  CleanUp clean_up;
  bool takes_tools = false;  // functions of the request are described to the model
};

inline constexpr ChatRoute kV1Chat{ThinkMode::fast, CleanUp::collapse, true};
inline constexpr ChatRoute kLightningChat{ThinkMode::fast_line, CleanUp::tidy_lines, true};
inline constexpr ChatRoute kV3Chat{ThinkMode::fast_closed, CleanUp::none};

struct ChatPrompt {
  std::string text;
  ThinkMode think = ThinkMode::none;  // none also where the prompt has no suffix
  bool force_reasoning = false;
};

// Reads the field `messages`; empty when absent. Faults stay in `fields`.
std::vector<ChatMessage> read_messages(Fields& fields);

// Reads which suffix of the template the request asks for. Faults stay in `fields`.
ThinkMode read_think_mode(Fields& fields, const ServedModel& model, ThinkMode think_off);

// What a prompt needs from the tools of a request.
struct ToolTalk {
  std::vector<std::string> descriptions = {};  // one line of JSON each
  std::vector<std::string> calls_before =
      {};  // ids of calls that `messages` may answer without containing them
};

// Tells whether every chat of the model begins with token 0.
bool begins_with_zero(const ServedModel& model);
// Tokenizes a rendered chat; begins with token 0 where the model's template does.
std::vector<int32_t> chat_tokens(const ServedModel& model, const std::string& text);

// Renders `messages` according to the other fields of the body. Nothing at a fault.
std::optional<ChatPrompt> render_messages(Fields& fields, const ServedModel& model, const ChatRoute& route,
                                          const std::vector<ChatMessage>& messages, ToolTalk talk = {});
// Reads the fields `messages` and, where the route takes them, `tools`, then renders them (render_messages).
std::optional<ChatPrompt> read_chat(Fields& fields, const ServedModel& model, const ChatRoute& route);

}  // namespace fulmar
