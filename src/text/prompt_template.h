// How each family of models writes chats, as data: roles, separators, think blocks, stops, function calls and
// sampling advice. One table; no other code knows a family by name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/think_mode.h"

namespace fulmar {

// The end of a prompt that asks for an answer, and what is appended to the last user turn for it.
struct ThinkForm {
  ThinkMode mode;
  std::string_view suffix;  // after the assistant's name, with the space before it if any
  std::string_view footer;  // at the end of the last user turn
};

// The text around the JSON of a function call, {"name":...,"arguments":{...}}.
struct CallMarks {
  std::string_view open, close;
};
inline constexpr CallMarks kTaggedCall{"<tool_call>", "</tool_call>"};
inline constexpr CallMarks kFencedCall{"**Tool Call:**\n```json\n", "\n```"};

// Sampling parameters that a family's authors advise.
struct SamplingAdvice {
  double temperature, top_p;
  int64_t top_k;
  double presence, frequency, decay;
};

struct PromptTemplate {
  std::string_view name, description;
  std::string_view system, user, assistant, tool;  // the roles' names
  std::string_view after_role;                     // between a role's name and its text
  std::string_view before_answer;                  // after the assistant's name at the end of a prompt
  std::string_view after_turn;                     // at the end of a turn's text; it cannot stand inside one
  std::string_view between_turns;
  bool end_token_first;  // prompts begin with the id that ends texts
  ThinkMode unasked;     // how to end a prompt if only the template is known of the model
  std::span<const ThinkForm> think_forms;
  std::span<const std::string_view> chat_stops;  // that end an answer of a chat
  std::span<const std::string_view> turn_stops;  // that end a turn where prompts are sent as they are
  CallMarks calls;
  std::optional<SamplingAdvice> thinking, quiet;  // advice for answers that think and those that do not

  const ThinkForm& form(ThinkMode mode) const;
  std::string_view suffix(ThinkMode mode) const { return form(mode).suffix; }
  // Returns the text that begins further turns of a conversation: the end of the turn before.
  std::string turn_end() const { return std::string(after_turn) + std::string(between_turns); }
  const std::optional<SamplingAdvice>& advice(ThinkMode mode) const {
    return is_thinking(mode) ? thinking : quiet;
  }
};

// Returns all templates; the first is for models about which nothing else is known.
std::span<const PromptTemplate> prompt_templates();
const PromptTemplate& world_template();
// Returns the template of that name, or null.
const PromptTemplate* find_prompt_template(std::string_view name);

// What is known about a model.
struct TemplateFacts {
  std::string_view jinja;  // a chat template that came with the model; empty: none
  std::string_view name;   // of its file, folder or repository
};

// Returns the template whose marks the jinja template uses, else that of the series in the name
// ("rwkv7-g1h-1.5b"), else the first.
const PromptTemplate& choose_prompt_template(const TemplateFacts& facts);

// Returns lines for people: "name   text".
std::string describe(const PromptTemplate& chosen);

}  // namespace fulmar
