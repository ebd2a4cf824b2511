// Bodies of chat requests through the template: the options in a first line of JSON's `params`, messages,
// tools and names as clients send them. A rendered prompt ends in no blank, and only turns are parted by
// blank lines.
#include <memory>
#include <optional>
#include <string>

#include "fuzz_input.h"
#include "net/json.h"
#include "server/generate/chat_intake.h"

namespace {

using namespace fulmar;

constexpr std::string_view kKnownRoles[] = {"user", "assistant", "system",  "developer",
                                            "rag",  "tool",      "function"};

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

// Roles, role names and names of functions are taken as they come: only messages without special ones are
// plain.
bool is_plain(const ChatMessage& message) {
  return message.tool_calls.empty() &&
         std::find(std::begin(kKnownRoles), std::end(kKnownRoles), message.role) != std::end(kKnownRoles);
}

void check_turns(const std::vector<ChatMessage>& messages) {
  for (const CleanUp clean_up : {CleanUp::none, CleanUp::collapse, CleanUp::tidy_lines}) {
    ChatOptions options;
    options.clean_up = clean_up;
    const Result<std::string> prompt = render_chat(messages, options);
    if (!prompt.ok()) continue;
    expect(!prompt->empty() && !prompt->ends_with(' ') && prompt->ends_with("\n\nAssistant:"));
    if (clean_up == CleanUp::none || !std::all_of(messages.begin(), messages.end(), is_plain)) continue;
    expect(count_of(*prompt, "\n\n") <= messages.size() + 1);
    expect(count_of(*prompt, "\n\n\n") == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  JsonLimits limits;
  limits.max_depth = 32;
  limits.max_values = 10'000;
  const auto body = parse_json(fuzz_text(data, size), limits);
  if (!body.ok() || !body->is_object()) return 0;
  ServedModel model;
  for (const ChatRoute& route : {kV1Chat, kLightningChat, kV3Chat}) {
    model.thinks = !model.thinks;
    Fields fields(*body);
    const std::optional<ChatPrompt> prompt = read_chat(fields, model, route);
    expect(prompt.has_value() != fields.failed());
    if (fields.failed()) {
      expect(!fields.fault().text.empty());
    } else {
      expect(!prompt->text.empty() && !prompt->text.ends_with(' '));
    }
  }
  Fields fields(*body);
  const std::vector<ChatMessage> messages = read_messages(fields);
  if (!fields.failed()) check_turns(messages);
  return 0;
}
