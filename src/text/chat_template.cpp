// Turns, system text, tools and the assistant suffix.
#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "base/meter.h"
#include "base/strip.h"

namespace fulmar {
namespace {

std::string with_plain_newlines(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    plain += text[i] == '\r' ? '\n' : text[i];
  }
  return plain;
}

// Removes lines that hold only white space; with `strip_lines` also the white space around each line.
std::string without_empty_lines(std::string_view text, bool strip_lines) {
  std::string kept;
  kept.reserve(text.size());
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (stripped(line).empty()) continue;
    if (!kept.empty()) kept += '\n';
    kept += strip_lines ? stripped(line) : line;
  }
  return kept;
}

// Removes the mark that ends a turn, also where removing one forms another, so that a text forges no turn.
std::string without_mark(std::string_view text, std::string_view mark) {
  if (mark.empty()) return std::string(text);
  std::string kept;
  kept.reserve(text.size());
  for (const char c : text) {
    kept += c;
    if (kept.ends_with(mark)) kept.resize(kept.size() - mark.size());
  }
  return kept;
}

std::string cleaned(std::string_view text, const ChatOptions& options) {
  count_work(text.size());
  const std::string unmarked = without_mark(text, options.prompt_template->after_turn);
  if (options.clean_up == CleanUp::none) return unmarked;
  const std::string plain = with_plain_newlines(unmarked);
  return without_empty_lines(stripped(plain), options.clean_up == CleanUp::tidy_lines);
}

bool is_system(std::string_view role) { return role == "system" || role == "developer"; }

std::string_view named(std::string_view given, std::string_view usual) {
  return given.empty() ? usual : given;
}

std::string role_name(std::string_view role, const ChatOptions& options) {
  const PromptTemplate& usual = *options.prompt_template;
  if (role == "user") return std::string(named(options.names.user, usual.user));
  if (role == "assistant") return std::string(named(options.names.assistant, usual.assistant));
  if (is_system(role) || role == "rag") return std::string(named(options.names.system, usual.system));
  if (role == "function" || role == "tool") return std::string(usual.tool);
  std::string name(role);
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return name;
}

void add_paragraph(std::string& text, std::string_view more, std::string_view between) {
  if (more.empty()) return;
  if (!text.empty()) text += between;
  text += more;
}

std::string call_text(const CallMarks& marks, std::string_view name, std::string_view arguments) {
  return fmt::format("{}{{\"name\":\"{}\",\"arguments\":{}}}{}", marks.open, name, arguments, marks.close);
}

// Describes the functions in tags, one line of JSON each.
std::string tagged_section(const ChatOptions& options) {
  std::string text =
      "You may call these functions, each described by one line of JSON:\n"
      "<tools>\n";
  for (const ToolDescription& tool : options.tools) text += cleaned(tool.json, options) + "\n";
  return text +
         "</tools>\nTo call one, write its name and its arguments as JSON between tags, once per call:\n";
}

// Describes the functions in Markdown: a heading, the description, and the schema of the arguments in a
// fence.
std::string fenced_section(const ChatOptions& options) {
  std::string text = "These tools may be called:\n";
  for (const ToolDescription& tool : options.tools) {
    text += fmt::format("### `{}`\n", tool.name);
    add_paragraph(
        text, tool.description.empty() ? "" : "**Description:** " + cleaned(tool.description, options) + "\n",
        "");
    text +=
        fmt::format("**Parameters:**\n```json\n{}\n```\n", named(cleaned(tool.parameters, options), "{}"));
  }
  return text + "To call one, write its name and its arguments as JSON in this form, once per call:\n";
}

std::string tool_section(const ChatOptions& options) {
  if (options.tools.empty()) return {};
  const CallMarks& marks = options.prompt_template->calls;
  const bool tagged = marks.open == kTaggedCall.open;
  return (tagged ? tagged_section(options) : fenced_section(options)) + call_text(marks, "...", "{...}");
}

std::string system_text(std::span<const ChatMessage> messages, const ChatOptions& options) {
  std::string text = cleaned(options.system, options);
  for (const ChatMessage& message : messages) {
    if (is_system(message.role)) add_paragraph(text, cleaned(message.content, options), "\n");
  }
  add_paragraph(text, tool_section(options), "\n");
  return text;
}

std::string turn_text(const ChatMessage& message, const ChatOptions& options) {
  std::string text = cleaned(message.content, options);
  for (const ToolCall& call : message.tool_calls) {
    const std::string arguments = cleaned(call.arguments, options);
    add_paragraph(text, call_text(options.prompt_template->calls, call.name, named(arguments, "{}")), "\n");
  }
  return text;
}

Error bad_name(std::string_view what, std::string_view name, std::string_view wanted) {
  const std::string found =
      name.size() <= kLongestRole ? fmt::format("'{}'", name) : fmt::format("{} bytes long", name.size());
  return {ErrorKind::invalid, fmt::format("{} is {}; wanted {}", what, found, wanted)};
}

Status check_role(std::string_view what, std::string_view role) {
  if (is_role(role)) return {};
  return bad_name(what, role,
                  fmt::format("1 to {} bytes without control characters, ':' and '\u273F'", kLongestRole));
}

Status check_names(std::span<const ChatMessage> messages, const ChatOptions& options) {
  const RoleNames& names = options.names;
  for (const auto& [what, name] : {std::pair{"user_name", &names.user},
                                   {"assistant_name", &names.assistant},
                                   {"system_name", &names.system}}) {
    if (!name->empty()) FULMAR_TRY(check_role(what, *name));
  }
  for (const ChatMessage& message : messages) {
    FULMAR_TRY(check_role("a message's role", message.role));
    for (const ToolCall& call : message.tool_calls) {
      if (is_function_name(call.name)) continue;
      return bad_name("the name of a message's tool call", call.name,
                      fmt::format("1 to {} of A-Z a-z 0-9 _ -", kLongestFunctionName));
    }
  }
  return {};
}

// Checks that every tool message answers a call made before it.
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

struct TemplateTurn {
  std::string role;  // as in the request
  std::string text;
};

std::vector<TemplateTurn> turns_of(std::span<const ChatMessage> messages, const ChatOptions& options) {
  std::vector<TemplateTurn> turns;
  for (const ChatMessage& message : messages) {
    if (is_system(message.role)) continue;
    std::string text = turn_text(message, options);
    if (!text.empty()) turns.push_back({message.role, std::move(text)});
  }
  return turns;
}

void add_footer(std::vector<TemplateTurn>& turns, std::string_view footer) {
  const auto last = std::find_if(turns.rbegin(), turns.rend(),
                                 [](const TemplateTurn& turn) { return turn.role == "user"; });
  if (last != turns.rend()) last->text += footer;
}

}  // namespace

bool is_function_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kLongestFunctionName && std::all_of(name.begin(), name.end(), fits);
}

bool is_role(std::string_view role) {
  const auto fits = [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F && c != ':'; };
  return !role.empty() && role.size() <= kLongestRole && std::all_of(role.begin(), role.end(), fits) &&
         role.find("\u273F") == std::string_view::npos;
}

Result<std::string> render_chat(std::span<const ChatMessage> messages, const ChatOptions& options) {
  FULMAR_TRY(check_names(messages, options));
  FULMAR_TRY(check_tool_answers(messages, options));
  const PromptTemplate& form = *options.prompt_template;
  const ThinkForm& think = form.form(options.think);
  std::vector<TemplateTurn> turns = turns_of(messages, options);
  if (options.add_generation_prompt) add_footer(turns, think.footer);
  std::string system = system_text(messages, options);
  if (!system.empty()) turns.insert(turns.begin(), {"system", std::move(system)});
  if (turns.empty()) return Error{ErrorKind::invalid, "Empty prompt"};

  std::string prompt;
  for (const TemplateTurn& turn : turns) {
    add_paragraph(
        prompt,
        fmt::format("{}{}{}{}", role_name(turn.role, options), form.after_role, turn.text, form.after_turn),
        form.between_turns);
  }
  if (options.add_generation_prompt) {
    prompt += fmt::format("{}{}{}{}", form.between_turns, role_name("assistant", options), form.before_answer,
                          think.suffix);
  }
  prompt.erase(prompt.find_last_not_of(' ') + 1);
  count_work(prompt.size());
  return prompt;
}

std::string render_utterance(std::string_view utterance, ThinkMode think, const PromptTemplate& chosen) {
  const ThinkForm& form = chosen.form(think);
  return fmt::format("{}{}{}{}{}{}{}{}{}", chosen.user, chosen.after_role, utterance, form.footer,
                     chosen.after_turn, chosen.between_turns, chosen.assistant, chosen.before_answer,
                     form.suffix);
}

std::string render_infill(std::string_view prefix, std::string_view suffix) {
  return fmt::format("\u273Fprefix\u273F\u273Fsuffix\u273F{}\u273Fmiddle\u273F{}", suffix, prefix);
}

}  // namespace fulmar
