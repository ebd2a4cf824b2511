// Renders messages as the prompt text that RWKV chat models are trained on: turns of roles and texts as a
// PromptTemplate has them, then the assistant suffix. Pure; knows nothing of JSON, tokens or models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/prompt_template.h"
#include "text/think_mode.h"

namespace fulmar {

// Names are written into the prompt unchanged, so they must hold nothing that could end a turn or a call.
constexpr size_t kLongestFunctionName = 64, kLongestRole = 64;  // bytes
// Returns whether the name has 1 to kLongestFunctionName characters of A-Z a-z 0-9 _ -
bool is_function_name(std::string_view name);
// Returns whether it has 1 to kLongestRole bytes, no control characters, ':' or U+273F, which mark turns.
bool is_role(std::string_view role);

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text of an object
};

// A function that the model may call.
struct ToolDescription {
  std::string json;  // all that the model is told: an object without line ends
  std::string name = {};
  std::string description = {};  // empty: none
  std::string parameters = {};   // JSON text of a schema; empty: anything
};

struct ChatMessage {
  std::string role;
  std::string content;  // text parts already joined; empty when the request says null
  std::string name;
  std::string tool_call_id;          // of role "tool": the call that this answers
  std::vector<ToolCall> tool_calls;  // of role "assistant"
};

// Newlines inside a message: the model would read a blank line as the end of the turn.
enum class CleanUp : uint8_t {
  none,       // verbatim
  collapse,   // strip the ends; runs of newlines become one
  tidy_lines  // besides, strip each line and drop the empty ones
};

// The roles' names in the prompt. An empty name means the template's.
struct RoleNames {
  std::string user;
  std::string assistant;
  std::string system;
};

struct ChatOptions {
  const PromptTemplate* prompt_template = &world_template();
  ThinkMode think = ThinkMode::none;
  CleanUp clean_up = CleanUp::collapse;
  RoleNames names;
  bool add_generation_prompt = true;  // false: no suffix after the last turn
  std::string system;                 // comes before the system messages
  std::vector<ToolDescription> tools;
  std::vector<std::string> calls_before;  // ids of calls in turns that came before these messages
};

// Renders a chat. System and developer messages form one system turn at the start; messages without content
// are skipped. The result never ends in a space. Errors (invalid): "Empty prompt" when no turn remains; a
// tool message whose tool_call_id answers no earlier call; roles, the roles' names in the prompt, and names
// of called functions that break the rules above.
Result<std::string> render_chat(std::span<const ChatMessage> messages, const ChatOptions& options);

// Renders one user utterance, unchanged, with the assistant suffix.
std::string render_utterance(std::string_view utterance, ThinkMode think,
                             const PromptTemplate& chosen = world_template());

// Renders a prompt to fill in the middle: the model writes what belongs between prefix and suffix.
std::string render_infill(std::string_view prefix, std::string_view suffix);

}  // namespace fulmar
