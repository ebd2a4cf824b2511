// Strings: lengths, `pattern`, `format` and `contentEncoding`.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/formats.h"
#include "grammar/schema.h"
#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

Result<std::string> word_of(const JsonValue& schema, std::string_view keyword, const SchemaPlace& where) {
  const JsonValue* value = schema.find(keyword);
  if (!value) return std::string();
  if (!value->is_string()) return invalid_keyword(text_of(where), keyword, *value, "a string");
  return value->as_string();
}

}  // namespace

Result<std::vector<std::string>> SchemaCompiler::patterns_of(const JsonValue& schema,
                                                             const Where& where) const {
  std::vector<std::string> patterns;
  if (!schema.find("pattern")) return patterns;
  if (with_many_patterns_.contains(&schema)) {
    for (const JsonValue& one : schema.find("pattern")->as_array()) patterns.push_back(one.as_string());
    return patterns;
  }
  FULMAR_ASSIGN(std::string pattern, word_of(schema, "pattern", where));
  patterns.push_back(std::move(pattern));
  return patterns;
}

// The automaton of a pattern, made once.
Result<TextAutomaton> SchemaCompiler::matching(std::string_view keyword, const std::string& pattern,
                                               const Where& where) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  const auto refuse = [&](const Error& error) {
    return Error{error.kind, fmt::format("schema keyword '{}' at '{}' is {}: {}", keyword, text_of(where),
                                         describe(JsonValue(pattern)), error.text)};
  };
  auto tree = parse_pattern(pattern);
  if (!tree) return refuse(tree.error());
  auto automaton = TextAutomaton::of_pattern(*tree, budget_);
  if (!automaton) return refuse(automaton.error());
  return patterns_.emplace(pattern, std::move(*automaton)).first->second;
}

// Where each length up to `most` would need too many states, shorter strings have to do.
Result<TextAutomaton> SchemaCompiler::limited(const TextAutomaton& texts, int64_t least, int64_t most) {
  if (texts.empty()) return texts;
  const auto longest = most < 0 ? std::nullopt : texts.longest();
  if (longest && *longest <= most) most = -1;
  if (least == 0 && most < 0) return texts;
  if (most >= 0) {
    const auto room = static_cast<int64_t>(budget_.remaining(Budget::Item::states) / 4 / texts.states());
    most = std::min(most, std::max(least, room));
  }
  return texts.of_length(least, most, budget_);
}

Result<TextAutomaton> SchemaCompiler::texts_of(const JsonValue& schema, const Where& where) {
  FULMAR_ASSIGN(const auto least, count_of(schema, "minLength", text_of(where)));
  FULMAR_ASSIGN(const auto most, count_of(schema, "maxLength", text_of(where)));
  FULMAR_ASSIGN(const auto patterns, patterns_of(schema, where));
  FULMAR_ASSIGN(const std::string format, word_of(schema, "format", where));
  FULMAR_ASSIGN(const std::string encoding, word_of(schema, "contentEncoding", where));
  TextAutomaton texts = TextAutomaton::any();
  for (const std::string& pattern : patterns) {
    const auto matched = matching("pattern", pattern, where);
    if (!matched && lenient_ && matched.error().kind == ErrorKind::unsupported) continue;
    if (!matched) return matched.error();
    if (&pattern == &patterns.front()) {
      texts = *matched;
    } else {
      FULMAR_ASSIGN(texts, texts.both(*matched, budget_));
    }
  }
  // To JSON Schema these annotate; where they contradict the pattern, it counts.
  for (const std::string_view known :
       {format_pattern(format), encoding == "base64" ? base64_pattern() : ""}) {
    if (known.empty()) continue;
    FULMAR_ASSIGN(const TextAutomaton described, matching("format", std::string(known), where));
    FULMAR_ASSIGN(TextAutomaton both, texts.both(described, budget_));
    if (!both.empty() || texts.empty()) texts = std::move(both);
  }
  return limited(texts, least.value_or(0), most.value_or(-1));
}

Result<Place> SchemaCompiler::string_body(const JsonValue& schema, const Where& where) {
  FULMAR_ASSIGN(const auto least, count_of(schema, "minLength", text_of(where)));
  FULMAR_ASSIGN(const auto most, count_of(schema, "maxLength", text_of(where)));
  if (most && least.value_or(0) > *most) return nothing_fits(text_of(where));
  FULMAR_ASSIGN(const std::string format, word_of(schema, "format", where));
  FULMAR_ASSIGN(const std::string encoding, word_of(schema, "contentEncoding", where));
  const bool plain = !schema.find("pattern") && format_pattern(format).empty() && encoding != "base64";
  if (plain) return rules_.string(least.value_or(0), most.value_or(-1), grammar_.end());
  FULMAR_ASSIGN(const auto patterns, patterns_of(schema, where));
  std::string asked = fmt::format("{} {} {} {}", least.value_or(0), most.value_or(-1), json_quoted(format),
                                  json_quoted(encoding));
  for (const std::string& pattern : patterns) asked += " " + json_quoted(pattern);
  const auto known = strings_.find(asked);
  if (known != strings_.end()) return known->second;
  FULMAR_ASSIGN(const TextAutomaton texts, texts_of(schema, where));
  if (texts.empty()) return nothing_fits(text_of(where));
  return strings_.emplace(std::move(asked), texts.quoted(grammar_, grammar_.end())).first->second;
}

}  // namespace fulmar
