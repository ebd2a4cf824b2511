// The table of templates, and the choice among them.
#include "text/prompt_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace fulmar {
namespace {

// Models up to G1g, and all others trained on "User: ...\n\nAssistant: ...".
constexpr ThinkForm kWorldForms[] = {
    {ThinkMode::none, "", ""},
    {ThinkMode::fast, " <think>\n</think", ""},
    {ThinkMode::fast_closed, " <think>\n</think>", ""},
    {ThinkMode::fast_line, " <think>\n</think>\n", ""},
    {ThinkMode::free, " <think", ""},
    {ThinkMode::prefer_chinese, " <think>\u55EF", ""},
    {ThinkMode::think, " <think", " (think)"},
    {ThinkMode::think_short, " <think", " (think a bit)"},
    {ThinkMode::think_long, " <think", " (think a lot)"},
    {ThinkMode::think_minimal, " <think", " (think minimally)"},
    {ThinkMode::think_extreme, " <think", " (think extremely carefully)"},
};

// From G1h on turns end in a mark of their own, U+273F, and how long to think is the model's choice.
constexpr ThinkForm kMarkedForms[] = {
    {ThinkMode::none, "", ""},
    {ThinkMode::fast, "<think></think>", ""},
    {ThinkMode::fast_closed, "<think></think>", ""},
    {ThinkMode::fast_line, "<think></think>", ""},
    {ThinkMode::free, "<think", ""},
    {ThinkMode::prefer_chinese, "<think>\u55EF", ""},
    {ThinkMode::think, "<think", ""},
    {ThinkMode::think_short, "<think", ""},
    {ThinkMode::think_long, "<think", ""},
    {ThinkMode::think_minimal, "<think", ""},
    {ThinkMode::think_extreme, "<think", ""},
};

constexpr std::string_view kWorldChatStops[] = {"\n\nUser:", "\nUser:"};
constexpr std::string_view kWorldTurnStops[] = {"\n\n", "User"};
constexpr std::string_view kMark = "\u273F";
constexpr std::string_view kMarkStops[] = {kMark};

constexpr PromptTemplate kTemplates[] = {
    {.name = "world",
     .description = "roles and a colon, turns between blank lines",
     .system = "System",
     .user = "User",
     .assistant = "Assistant",
     .tool = "Tool",
     .after_role = ": ",
     .before_answer = ":",
     .after_turn = "",
     .between_turns = "\n\n",
     .end_token_first = false,
     .unasked = ThinkMode::none,
     .think_forms = kWorldForms,
     .chat_stops = kWorldChatStops,
     .turn_stops = kWorldTurnStops,
     .calls = kTaggedCall,
     .thinking = {},
     .quiet = {}},
    {.name = "g1h",
     .description = "G1h and newer: roles and turns end in U+273F",
     .system = "System",
     .user = "User",
     .assistant = "Bot",
     .tool = "Tool",
     .after_role = kMark,
     .before_answer = kMark,
     .after_turn = kMark,
     .between_turns = "\n",
     .end_token_first = true,
     .unasked = ThinkMode::fast,
     .think_forms = kMarkedForms,
     .chat_stops = kMarkStops,
     .turn_stops = kMarkStops,
     .calls = kFencedCall,
     .thinking = SamplingAdvice{0.96, 0.76, 32, 1.0, 0.1, 0.988},
     .quiet = SamplingAdvice{1.0, 0.28, 32, 0, 0, 0.996}},
};

// Returns whether the part names a series from G1h on: "g1h", "g1k2", "g2", ...
bool is_marked_series(std::string_view part) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  if (part.size() < 2 || (part[0] != 'g' && part[0] != 'G') || !digit(part[1])) return false;
  if (!std::all_of(part.begin() + std::min<size_t>(part.size(), 3), part.end(), digit)) return false;
  if (part[1] >= '2') return part.size() == 2 || std::isalpha(static_cast<unsigned char>(part[2])) != 0;
  return part[1] == '1' && part.size() > 2 && std::tolower(static_cast<unsigned char>(part[2])) >= 'h' &&
         std::tolower(static_cast<unsigned char>(part[2])) <= 'z';
}

bool names_marked_series(std::string_view name) {
  constexpr std::string_view kSeparators = "-_. /";
  for (;;) {
    const size_t end = name.find_first_of(kSeparators);
    if (is_marked_series(name.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    name.remove_prefix(end + 1);
  }
}

std::string visible(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c == '\n') {
      shown += "\\n";
    } else {
      shown += c;
    }
  }
  return "'" + shown + "'";
}

std::string advice_text(const std::optional<SamplingAdvice>& advice) {
  if (!advice) return "none";
  return fmt::format("temperature {} top_p {} top_k {} presence {} frequency {} decay {}",
                     advice->temperature, advice->top_p, advice->top_k, advice->presence, advice->frequency,
                     advice->decay);
}

}  // namespace

const ThinkForm& PromptTemplate::form(ThinkMode mode) const {
  return *std::find_if(think_forms.begin(), think_forms.end(),
                       [&](const ThinkForm& form) { return form.mode == mode; });
}

std::span<const PromptTemplate> prompt_templates() { return kTemplates; }

const PromptTemplate& world_template() { return kTemplates[0]; }

const PromptTemplate* find_prompt_template(std::string_view name) {
  const auto found = std::find_if(std::begin(kTemplates), std::end(kTemplates),
                                  [&](const PromptTemplate& one) { return one.name == name; });
  return found == std::end(kTemplates) ? nullptr : found;
}

const PromptTemplate& choose_prompt_template(const TemplateFacts& facts) {
  const PromptTemplate& marked = kTemplates[1];
  if (facts.jinja.find(kMark) != std::string_view::npos) return marked;
  if (facts.jinja.find("User:") != std::string_view::npos) return world_template();
  return names_marked_series(facts.name) ? marked : world_template();
}

std::string describe(const PromptTemplate& chosen) {
  const auto stops = [](std::span<const std::string_view> texts) {
    std::vector<std::string> shown;
    for (const std::string_view text : texts) shown.push_back(visible(text));
    return fmt::format("{}", fmt::join(shown, " "));
  };
  const auto turn = [&](std::string_view role) {
    return visible(fmt::format("{}{}...{}", role, chosen.after_role, chosen.after_turn));
  };
  const auto answer = [&](ThinkMode mode) {
    return visible(fmt::format("{}{}{}", chosen.assistant, chosen.before_answer, chosen.suffix(mode)));
  };
  std::string text = fmt::format("template    {} ({})\n", chosen.name, chosen.description);
  text += fmt::format("turns       {} {} {} {}, between them {}\n", turn(chosen.system), turn(chosen.user),
                      turn(chosen.assistant), turn(chosen.tool), visible(chosen.between_turns));
  if (chosen.end_token_first) text += "begins      with the id that ends texts\n";
  text += fmt::format("answers     {} thinking, {} not thinking\n", answer(ThinkMode::free),
                      answer(ThinkMode::fast));
  text += fmt::format("stops       {}\n", stops(chosen.chat_stops));
  text += fmt::format("calls       {}...{}\n", visible(chosen.calls.open), visible(chosen.calls.close));
  text += fmt::format("advice      thinking: {}; not thinking: {}\n", advice_text(chosen.thinking),
                      advice_text(chosen.quiet));
  return text;
}

}  // namespace fulmar
