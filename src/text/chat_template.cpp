// Turns, system text, tools and the assistant suffix.
#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace fulmar {
namespace {

constexpr std::string_view kBlanks = " \t\n\v\f\r";
constexpr std::string_view kTurnEnd = "\n\n";

std::string_view strip(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string with_plain_newlines(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    plain += text[i] == '\r' ? '\n' : text[i];
  }
  return plain;
}

// Lines without anything but blanks go; with `strip_lines` also the blanks around each line.
std::string without_empty_lines(std::string_view text, bool strip_lines) {
  std::string kept;
  kept.reserve(text.size());
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (strip(line).empty()) continue;
    if (!kept.empty()) kept += '\n';
    kept += strip_lines ? strip(line) : line;
  }
  return kept;
}

std::string cleaned(std::string_view text, CleanUp clean_up) {
  if (clean_up == CleanUp::none) return std::string(text);
  const std::string plain = with_plain_newlines(text);
  return without_empty_lines(strip(plain), clean_up == CleanUp::tidy_lines);
}

bool is_system(std::string_view role) { return role == "system" || role == "developer"; }

std::string_view named(std::string_view given, std::string_view usual) {
  return given.empty() ? usual : given;
}

std::string role_name(std::string_view role, const RoleNames& names) {
  if (role == "user") return std::string(named(names.user, "User"));
  if (role == "assistant") return std::string(named(names.assistant, "Assistant"));
  if (is_system(role) || role == "rag") return std::string(named(names.system, "System"));
  if (role == "function") return "Tool";
  std::string name(role);
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

void add_paragraph(std::string& text, std::string_view more, std::string_view between) {
  if (more.empty()) return;
  if (!text.empty()) text += between;
  text += more;
}

std::string tool_section(const std::vector<std::string>& tools, CleanUp clean_up) {
  if (tools.empty()) return {};
  std::string text =
      "You may call these functions, each described by one line of JSON:\n"
      "<tools>\n";
  for (const std::string& tool : tools) text += cleaned(tool, clean_up) + "\n";
  text +=
      "</tools>\n"
      "To call one, write its name and its arguments as JSON between tags, once per call:\n"
      "<tool_call>{\"name\":\"...\",\"arguments\":{...}}</tool_call>";
  return text;
}

std::string system_text(std::span<const ChatMessage> messages, const ChatOptions& options) {
  std::string text = cleaned(options.system, options.clean_up);
  for (const ChatMessage& message : messages) {
    if (is_system(message.role)) add_paragraph(text, cleaned(message.content, options.clean_up), "\n");
  }
  add_paragraph(text, tool_section(options.tools, options.clean_up), "\n");
  return text;
}

std::string turn_text(const ChatMessage& message, CleanUp clean_up) {
  std::string text = cleaned(message.content, clean_up);
  for (const ToolCall& call : message.tool_calls) {
    const std::string arguments = cleaned(call.arguments, clean_up);
    add_paragraph(text,
                  fmt::format("<tool_call>{{\"name\":\"{}\",\"arguments\":{}}}</tool_call>", call.name,
                              named(arguments, "{}")),
                  "\n");
  }
  return text;
}

// Every tool message must answer a call made before it.
Status check_tool_answers(std::span<const ChatMessage> messages, const ChatOptions& options) {
  std::set<std::string_view> calls(options.calls_before.begin(), options.calls_before.end());
  for (const ChatMessage& message : messages) {
    for (const ToolCall& call : message.tool_calls) calls.insert(call.id);
    if (message.role == "tool" && !calls.contains(message.tool_call_id)) {
      return Error{
          ErrorKind::invalid,
          fmt::format("tool_call_id is '{}', wanted the id of an earlier tool call", message.tool_call_id)};
    }
  }
  return {};
}

struct Turn {
  std::string role;  // as in the request
  std::string text;
};

std::vector<Turn> turns_of(std::span<const ChatMessage> messages, CleanUp clean_up) {
  std::vector<Turn> turns;
  for (const ChatMessage& message : messages) {
    if (is_system(message.role)) continue;
    std::string text = turn_text(message, clean_up);
    if (!text.empty()) turns.push_back({message.role, std::move(text)});
  }
  return turns;
}

void add_footer(std::vector<Turn>& turns, ThinkMode think) {
  const auto last =
      std::find_if(turns.rbegin(), turns.rend(), [](const Turn& turn) { return turn.role == "user"; });
  if (last != turns.rend()) last->text += think_footer(think);
}

}  // namespace

Result<std::string> render_chat(std::span<const ChatMessage> messages, const ChatOptions& options) {
  FULMAR_TRY(check_tool_answers(messages, options));
  std::vector<Turn> turns = turns_of(messages, options.clean_up);
  if (options.add_generation_prompt) add_footer(turns, options.think);
  std::string system = system_text(messages, options);
  if (!system.empty()) turns.insert(turns.begin(), {"system", std::move(system)});
  if (turns.empty()) return Error{ErrorKind::invalid, "Empty prompt"};

  std::string prompt;
  for (const Turn& turn : turns) {
    add_paragraph(prompt, role_name(turn.role, options.names) + ": " + turn.text, kTurnEnd);
  }
  if (options.add_generation_prompt) {
    prompt += kTurnEnd;
    prompt += role_name("assistant", options.names) + ":";
    prompt += think_suffix(options.think);
  }
  prompt.erase(prompt.find_last_not_of(' ') + 1);
  return prompt;
}

std::string render_utterance(std::string_view utterance, ThinkMode think) {
  return fmt::format("User: {}{}\n\nAssistant:{}", utterance, think_footer(think), think_suffix(think));
}

std::string render_infill(std::string_view prefix, std::string_view suffix) {
  return fmt::format("\u273Fprefix\u273F\u273Fsuffix\u273F{}\u273Fmiddle\u273F{}", suffix, prefix);
}

}  // namespace fulmar
