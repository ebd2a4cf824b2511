// Products of automata, each pattern's own made once.
#include "grammar/schema_texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/formats.h"
#include "grammar/pattern.h"
#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {

Result<TextAutomaton> listed_texts(const std::vector<std::string_view>& texts, Budget& budget) {
  Pattern choice;
  choice.kind = Pattern::Kind::choice;
  for (const std::string_view text : texts) {
    Pattern& sequence = choice.parts.emplace_back();
    sequence.parts.emplace_back().kind = Pattern::Kind::begin;
    for (const uint32_t point : code_points_of(text)) {
      Pattern& character = sequence.parts.emplace_back();
      character.kind = Pattern::Kind::characters;
      character.set.add(point, point);
    }
    sequence.parts.emplace_back().kind = Pattern::Kind::end;
  }
  return TextAutomaton::of_pattern(choice, budget);
}

Result<const TextAutomaton*> SchemaTexts::matching(const JsonValue& schema, std::string_view keyword,
                                                   const std::string& pattern) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return &known->second;
  const auto refuse = [&](const Error& error) {
    const std::string why = fmt::format("is {}: {}", describe(JsonValue(pattern)), error.text);
    Error named = reader_.unsupported(schema, keyword, why);
    named.kind = error.kind;
    return named;
  };
  auto tree = parse_pattern(pattern);
  if (!tree) return refuse(tree.error());
  auto automaton = TextAutomaton::of_pattern(*tree, reader_.budget());
  if (!automaton) return refuse(automaton.error());
  return &patterns_.emplace(pattern, std::move(*automaton)).first->second;
}

bool SchemaTexts::plain(const Shape& shape) const {
  const bool known_format =
      std::any_of(shape.formats.begin(), shape.formats.end(),
                  [](const Shape::Described& one) { return format_texts(one.format) != nullptr; });
  const bool excludes = std::any_of(shape.excluded.begin(), shape.excluded.end(),
                                    [](const JsonValue* value) { return value->is_string(); });
  return shape.patterns.empty() && !known_format && shape.missed_formats.empty() && !excludes;
}

std::string SchemaTexts::asked_of(const Shape& shape) {
  std::string text = fmt::format("{} {}", shape.least_length, shape.most_length);
  for (const Shape::Described& one : shape.formats) text += " " + json_quoted(one.format);
  for (const std::string_view format : shape.missed_formats) text += " ~" + json_quoted(format);
  for (const auto& [schema, fits] : shape.patterns) {
    text += (fits ? " " : " !") + json_text(*schema->find("pattern"));
  }
  for (const JsonValue* value : shape.excluded) {
    if (value->is_string()) text += " -" + json_text(*value);
  }
  return text;
}

Result<TextAutomaton> SchemaTexts::texts_of_any_length(const Shape& shape) {
  Budget& budget = reader_.budget();
  TextAutomaton texts = TextAutomaton::any();
  bool all = true;  // nothing has been asked for yet
  const auto narrow = [&](const TextAutomaton& matched, bool fits) -> Status {
    if (fits && all) {
      texts = matched;
    } else {
      FULMAR_ASSIGN(texts, fits ? texts.both(matched, budget) : texts.without(matched, budget));
    }
    all = false;
    return {};
  };
  for (const auto& [schema, fits] : shape.patterns) {
    const auto matched = matching(*schema, "pattern", schema->find("pattern")->as_string());
    if (!matched && reader_.loosens(matched.error())) continue;
    if (!matched) return matched.error();
    FULMAR_TRY(narrow(**matched, fits));
  }
  for (const Shape::Described& one : shape.formats) {
    const TextAutomaton* known = format_texts(one.format);
    if (known) FULMAR_TRY(narrow(*known, true));
  }
  for (const std::string_view format : shape.missed_formats) {
    FULMAR_TRY(narrow(*widest_format_texts(format), false));
  }
  std::vector<std::string_view> excluded;
  for (const JsonValue* value : shape.excluded) {
    if (value->is_string()) excluded.push_back(value->as_string());
  }
  if (!excluded.empty()) {
    FULMAR_ASSIGN(const TextAutomaton others, listed_texts(excluded, budget));
    FULMAR_ASSIGN(texts, texts.without(others, budget));
  }
  if (shape.values) {
    std::vector<std::string_view> listed;
    for (const JsonValue* value : *shape.values) {
      if (value->is_string()) listed.push_back(value->as_string());
    }
    FULMAR_ASSIGN(const TextAutomaton values, listed_texts(listed, budget));
    FULMAR_ASSIGN(texts, texts.both(values, budget));
  }
  return texts;
}

Result<TextAutomaton> SchemaTexts::texts_of(const Shape& shape) {
  FULMAR_ASSIGN(TextAutomaton texts, texts_of_any_length(shape));
  if (texts.empty() || (shape.least_length <= 0 && shape.most_length < 0)) return texts;
  return texts.of_length(shape.least_length, shape.most_length, reader_.budget());
}

}  // namespace fulmar
