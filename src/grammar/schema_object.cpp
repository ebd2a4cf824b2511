// Objects: listed properties in their order, or free names where none is listed.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema.h"
#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {

namespace {

// The strings of `const` or `enum`.
std::vector<std::string_view> listed_texts(const JsonValue& schema) {
  std::vector<std::string_view> texts;
  const auto add = [&](const JsonValue& value) {
    if (value.is_string()) texts.push_back(value.as_string());
  };
  const JsonValue* value = schema.find("const");
  const JsonValue* values = schema.find("enum");
  if (value) {
    add(*value);
  } else if (values && values->is_array()) {
    for (const JsonValue& one : values->as_array()) add(one);
  }
  return texts;
}

// Matches exactly these.
Pattern any_text_of(const std::vector<std::string_view>& texts) {
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
  return choice;
}

}  // namespace

// What names may be, and what stands under those that `properties` does not list.
struct SchemaCompiler::Names {
  struct Matching {
    TextAutomaton names;
    Rule value = -1;
    std::string text;  // the value's schema as JSON
  };
  std::vector<Matching> patterns;
  std::optional<TextAutomaton> admitted;  // by propertyNames; nothing: all
  std::optional<Rule> extra;              // of names that no pattern matches; nothing: there are none

  bool admits(std::string_view name) const { return !admitted || admitted->takes(name); }
};

Result<TextAutomaton> SchemaCompiler::admitted_names(const JsonValue& wanted, const Where& where) {
  if (wanted.is_bool()) return wanted.as_bool() ? TextAutomaton::any() : TextAutomaton();
  if (!wanted.is_object()) return invalid_keyword(text_of(*where.up), where.name, wanted, "a schema");
  FULMAR_TRY(only(wanted, {"type", "minLength", "maxLength", "pattern", "format", "enum", "const"}, where));
  FULMAR_ASSIGN(TextAutomaton texts, texts_of(wanted, where));
  if (!wanted.find("enum") && !wanted.find("const")) return texts;
  FULMAR_ASSIGN(const auto listed, TextAutomaton::of_pattern(any_text_of(listed_texts(wanted)), budget_));
  return texts.both(listed, budget_);
}

Result<SchemaCompiler::Names> SchemaCompiler::names_of(const JsonValue& schema, const Where& where) {
  Names names;
  const JsonValue* more = schema.find("additionalProperties");
  if (!more || (more->is_bool() && more->as_bool())) {
    names.extra = rules_.any_value(kFreeDepth - 1);
  } else if (!more->is_bool()) {
    names.extra = rule_of(*more, below(where, "additionalProperties"));
  }
  if (const JsonValue* patterns = schema.find("patternProperties")) {
    if (!patterns->is_object()) {
      return invalid_keyword(text_of(where), "patternProperties", *patterns, "an object");
    }
    const Where& there = below(where, "patternProperties");
    for (const auto& [pattern, value] : patterns->as_object().members()) {
      auto matched = matching("patternProperties", pattern, where);
      if (!matched && lenient_ && matched.error().kind == ErrorKind::unsupported) continue;
      if (!matched) return matched.error();
      names.patterns.push_back(
          {std::move(*matched), rule_of(value, below(there, pattern)), json_text(value)});
    }
  }
  if (const JsonValue* wanted = schema.find("propertyNames")) {
    FULMAR_ASSIGN(names.admitted, admitted_names(*wanted, below(where, "propertyNames")));
  }
  return names;
}

// The schema of a name that `properties` does not list; nothing: the name may not be there.
Result<std::optional<Rule>> SchemaCompiler::value_of_unlisted(const Names& names, std::string_view name) {
  FULMAR_TRY(budget_.take(Budget::Item::work, names.patterns.size() * (name.size() + 1) + name.size()));
  std::optional<Rule> value;
  std::string_view text;
  bool matched = false;
  for (const Names::Matching& pattern : names.patterns) {
    if (!pattern.names.takes(name)) continue;
    if (matched && text != pattern.text) {
      return Error{ErrorKind::unsupported,
                   fmt::format("schema keyword 'patternProperties' says two things of the name '{}'", name)};
    }
    matched = true;
    value = pattern.value;
    text = pattern.text;
  }
  return matched ? value : names.extra;
}

Result<std::vector<SchemaCompiler::Property>> SchemaCompiler::properties_of(const JsonValue& schema,
                                                                            const Names& names,
                                                                            const Where& where) {
  std::vector<Property> properties;
  std::unordered_map<std::string_view, size_t> index;  // by name
  const JsonValue* listed = schema.find("properties");
  if (listed && !listed->is_object())
    return invalid_keyword(text_of(where), "properties", *listed, "an object");
  const Where& there = below(where, "properties");
  const JsonObject none;
  for (const auto& [name, value] : (listed ? listed->as_object() : none).members()) {
    if (value.is_bool() && !value.as_bool()) continue;  // never there
    FULMAR_TRY(budget_.take(Budget::Item::work, name.size() * (names.patterns.size() + 1) + 1));
    if (!names.admits(name)) continue;
    for (const Names::Matching& pattern : names.patterns) {
      if (lenient_ || pattern.text == "true" || pattern.text == "{}" || !pattern.names.takes(name)) continue;
      FULMAR_TRY(budget_.take(Budget::Item::work, pattern.text.size()));
      if (pattern.text == json_text(value)) continue;
      return unsupported_keyword(text_of(where), "patternProperties",
                                 fmt::format("matches '{}', which 'properties' describes, too", name));
    }
    index.emplace(name, properties.size());
    properties.push_back({name, rule_of(value, below(there, name))});
  }
  const auto require = [&](const std::string& name) -> Status {
    const auto found = index.find(name);
    if (found != index.end()) {
      properties[found->second].required = true;
      return {};
    }
    if ((listed && listed->find(name)) || !names.admits(name)) return nothing_fits(text_of(where));
    FULMAR_ASSIGN(const auto value, value_of_unlisted(names, name));
    if (!value) return nothing_fits(text_of(where));
    index.emplace(name, properties.size());
    properties.push_back({name, *value, true});
    return {};
  };
  if (const JsonValue* required = schema.find("required")) {
    if (!required->is_array())
      return invalid_keyword(text_of(where), "required", *required, "an array of names");
    for (const JsonValue& name : required->as_array()) {
      if (!name.is_string()) return invalid_keyword(text_of(where), "required", name, "names");
      FULMAR_TRY(require(name.as_string()));
    }
  }
  // Names that propertyNames lists one by one are properties that may be there.
  const JsonValue* wanted = schema.find("propertyNames");
  if (!wanted || listed) return properties;
  for (const std::string_view name : listed_texts(*wanted)) {
    if (index.contains(name) || !names.admits(name)) continue;
    FULMAR_ASSIGN(const auto value, value_of_unlisted(names, name));
    if (!value) continue;
    index.emplace(name, properties.size());
    properties.push_back({name, *value});
  }
  return properties;
}

Result<Place> SchemaCompiler::object_body(const JsonValue& schema, const Where& where) {
  FULMAR_ASSIGN(const auto min_count, count_of(schema, "minProperties", text_of(where)));
  FULMAR_ASSIGN(const auto max_count, count_of(schema, "maxProperties", text_of(where)));
  const int64_t least = min_count.value_or(0);
  if (max_count && least > *max_count) return nothing_fits(text_of(where));
  FULMAR_ASSIGN(const Names names, names_of(schema, where));
  FULMAR_ASSIGN(const std::vector<Property> properties, properties_of(schema, names, where));
  if (properties.empty()) return free_members(names, least, max_count, where);
  return listed_members(properties, least, max_count, where);
}

// Any number of members with names that nothing lists. Two of one name count as one, so only the first of
// them can be asked for.
Result<Place> SchemaCompiler::free_members(const Names& names, int64_t least, std::optional<int64_t> most,
                                           const Where& where) {
  if (least > 1) {
    return unsupported_keyword(text_of(where), "minProperties",
                               fmt::format("is {} where no more than 1 can be kept: name properties by "
                                           "'properties', 'required' or an 'enum' of 'propertyNames'",
                                           least));
  }
  Grammar& g = grammar_;
  std::vector<Place> members;
  const auto after_name = [&](Rule value) { return rules_.colon(g.call(value, g.end())); };
  TextAutomaton others = names.admitted.value_or(TextAutomaton::any());
  for (const Names::Matching& pattern : names.patterns) {
    // A name that another pattern matches, too, would have to fit both values.
    FULMAR_ASSIGN(TextAutomaton own, others.both(pattern.names, budget_));
    for (const Names::Matching& other : names.patterns) {
      if (&other == &pattern || other.text == pattern.text) continue;
      FULMAR_ASSIGN(own, own.without(other.names, budget_));
    }
    if (!own.empty()) members.push_back(own.quoted(g, after_name(pattern.value)));
  }
  if (names.extra && names.patterns.empty() && !names.admitted) {
    members.push_back(rules_.string(0, -1, after_name(*names.extra)));
  } else if (names.extra) {
    for (const Names::Matching& pattern : names.patterns) {
      FULMAR_ASSIGN(others, others.without(pattern.names, budget_));
    }
    if (!others.empty()) members.push_back(others.quoted(g, after_name(*names.extra)));
  }
  const Place empty = rules_.close_at_once("}", g.end());
  if (members.empty() || (most && *most == 0)) {
    return least > 0 ? Result<Place>(nothing_fits(text_of(where))) : rules_.open("{", empty);
  }
  const Rule member = g.rule(g.branch(members));
  const Rule further = g.rule(rules_.comma(g.call(member, g.end())));
  const Place some = g.call(member, g.repeat(further, 0, most ? *most - 1 : -1, rules_.close("}", g.end())));
  return rules_.open("{", least > 0 ? some : g.branch(empty, some));
}

// From the end, once for each number of members written so far that makes a difference: none, when no comma
// is due, some, and those that the bounds tell apart.
Result<Place> SchemaCompiler::listed_members(const std::vector<Property>& properties, int64_t least,
                                             std::optional<int64_t> most, const Where& where) {
  Grammar& g = grammar_;
  const auto count = static_cast<int64_t>(properties.size());
  const int64_t required = std::count_if(properties.begin(), properties.end(),
                                         [](const Property& property) { return property.required; });
  if (least > count || (most && *most < required)) return nothing_fits(text_of(where));
  if (most && *most >= count) most.reset();
  if (least <= required) least = 0;
  size_t optional_run = 0;
  for (size_t i = 0, run = 0; i < properties.size(); ++i) {
    run = properties[i].required ? 0 : run + 1;
    optional_run = std::max(optional_run, run);
  }
  if (optional_run > kMaxChoices) {
    return unsupported_keyword(
        text_of(where), "properties",
        fmt::format("holds {} optional ones in a row; at most {} are allowed", optional_run, kMaxChoices));
  }
  const auto levels = static_cast<size_t>(most ? *most : std::max<int64_t>(1, least));
  FULMAR_TRY(budget_.take(Budget::Item::work, properties.size() * (levels + 1)));
  std::vector<std::optional<Place>> from(levels + 1);  // by members written; nothing: no way to the end
  for (size_t written = 0; written <= levels; ++written) {
    if (static_cast<int64_t>(written) < least) continue;
    from[written] = written > 0 ? rules_.close("}", g.end()) : rules_.close_at_once("}", g.end());
  }
  for (size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    const std::string key = json_quoted(property.name);
    std::vector<std::optional<Place>> before(levels + 1);
    for (size_t written = 0; written <= levels; ++written) {
      std::vector<Place> choices;
      const bool full = most && written == levels;
      const std::optional<Place> after = full ? std::nullopt : from[std::min(written + 1, levels)];
      if (after) {
        const Place member = g.text(key, rules_.colon(g.call(property.value, *after)));
        choices.push_back(written > 0 ? rules_.comma(member) : member);
      }
      if (!property.required && from[written]) choices.push_back(*from[written]);
      if (!choices.empty()) before[written] = g.branch(choices);
    }
    from = std::move(before);
  }
  if (!from[0]) return nothing_fits(text_of(where));
  return rules_.open("{", *from[0]);
}

}  // namespace fulmar
