// Objects: listed members, those that patterns and `additionalProperties` describe, and names.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "grammar/code_points.h"
#include "grammar/schema.h"
#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr size_t kMaxNameClasses = 64;  // names told apart by the patterns that they match

std::vector<std::string_view> listed_strings(const Shape& shape) {
  std::vector<std::string_view> names;
  for (const JsonValue* value : shape.values ? *shape.values : std::vector<const JsonValue*>()) {
    if (value->is_string()) names.push_back(value->as_string());
  }
  return names;
}

}  // namespace

// Returns the strings that fit one of the shapes.
Result<TextAutomaton> SchemaCompiler::names_of(const std::vector<Shape>& shapes) {
  // What no shape accepts is refused.
  TextAutomaton refused = TextAutomaton::any();
  for (const Shape& one : shapes) {
    if (!one.kinds[kString]) continue;
    FULMAR_ASSIGN(const TextAutomaton texts, texts_.texts_of(one));
    FULMAR_ASSIGN(refused, refused.without(texts, budget_));
  }
  return TextAutomaton::any().without(refused, budget_);
}

// Returns the names that propertyNames allows; nothing: all.
Result<std::optional<TextAutomaton>> SchemaCompiler::admitted_names(const Shape& shape) {
  Demands demands = shape.names;
  settle(demands);
  if (demands.empty()) return std::optional<TextAutomaton>();
  if (nothing_fits(demands)) return std::optional<TextAutomaton>(TextAutomaton());
  FULMAR_ASSIGN(auto shapes, expansion_.shapes_of(demands));
  FULMAR_ASSIGN(TextAutomaton admitted, names_of(shapes));
  const auto format = admitted.empty() ? take_formats(demands, shapes) : std::nullopt;
  if (format) {
    FULMAR_ASSIGN(admitted, names_of(shapes));
    if (!admitted.empty()) FULMAR_TRY(give_up(*format, demands));
  }
  return std::optional(std::move(admitted));
}

// Returns the listed members in the order of the schemas. `never`: names that must be absent. `possible`:
// none of these is required.
Result<std::vector<SchemaCompiler::Member>> SchemaCompiler::listed_members(
    const Shape& shape, const SchemaMembers& scopes, const std::optional<TextAutomaton>& admitted,
    std::vector<std::string_view>& never, bool& possible) {
  std::vector<Member> members;
  std::unordered_set<std::string_view> known;
  const std::unordered_set<std::string_view> required(shape.required.begin(), shape.required.end());
  possible = true;
  const auto add = [&](std::string_view name) -> Status {
    if (!known.insert(name).second) return {};
    FULMAR_TRY(budget_.take(Budget::Item::work, name.size() + 1));
    FULMAR_ASSIGN(const Demands demands, scopes.of_name(name, shape, budget_));
    const bool wanted = required.contains(name);
    if (nothing_fits(demands) || (admitted && !admitted->takes(name))) {
      possible = possible && !wanted;
      never.push_back(name);
      return {};
    }
    members.push_back({name, rule_of(demands), wanted});
    return {};
  };
  for (const SchemaMembers::Scope& scope : scopes.scopes()) {
    if (!scope.properties) continue;
    for (const auto& [name, value] : scope.properties->as_object().members()) FULMAR_TRY(add(name));
  }
  for (const std::string_view name : shape.required) FULMAR_TRY(add(name));
  for (const auto& [name, demand] : shape.members) FULMAR_TRY(add(name));
  // Names that propertyNames lists one by one are members that may be there.
  if (!members.empty() || shape.names.empty()) return members;
  FULMAR_ASSIGN(const auto shapes, expansion_.shapes_of(shape.names));
  for (const Shape& one : shapes) {
    for (const std::string_view name : listed_strings(one)) FULMAR_TRY(add(name));
  }
  return members;
}

// Takes a name in its shortest form that is none of `names`: follows their prefix tree until it leaves it.
Place SchemaCompiler::other_name(const std::vector<std::string_view>& names, Place next) {
  struct Node {
    std::map<uint32_t, size_t> below;
    bool ends = false;
  };
  std::vector<Node> nodes(1);
  for (const std::string_view name : names) {
    size_t at = 0;
    for (const uint32_t point : code_points_of(name)) {
      const auto [found, fresh] = nodes[at].below.emplace(point, nodes.size());
      at = found->second;
      if (fresh) nodes.emplace_back();
    }
    nodes[at].ends = true;
  }
  Grammar& g = grammar_;
  const Place close = g.text("\"", next);
  // After the tree anything may follow.
  const Rule rest = g.rule(rules_.rest_of_string(g.end()));
  std::vector<Place> places(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {  // nodes stand before those below them
    CodePointSet others = CodePointSet::all();
    std::vector<Place> ways;
    if (!nodes[i].ends) ways.push_back(close);
    CodePointSet known;
    for (const auto& [point, below] : nodes[i].below) {
      known.add(point, point);
      ways.push_back(character_of(g, CodePointSet::of(point, point), CharacterForm::in_json, places[below]));
    }
    others = known.complement();
    ways.push_back(character_of(g, others, CharacterForm::in_json, g.call(rest, next)));
    places[i] = g.branch(ways);
  }
  return g.text("\"", places[0]);
}

// Returns the allowed names, divided by the patterns that they match.
Result<std::vector<SchemaCompiler::NameClass>> SchemaCompiler::name_classes(
    const SchemaMembers& scopes, const std::optional<TextAutomaton>& admitted) {
  std::vector<NameClass> classes(1);
  classes[0].names = admitted;
  const auto anything = [&](const std::optional<TextAutomaton>& names) {
    return names ? *names : TextAutomaton::any();
  };
  for (const SchemaMembers::Scope& scope : scopes.scopes()) {
    for (const SchemaMembers::Scope::Matching& pattern : scope.patterns) {
      std::vector<NameClass> split;
      for (const NameClass& one : classes) {
        FULMAR_ASSIGN(TextAutomaton within, anything(one.names).both(*pattern.names, budget_));
        FULMAR_ASSIGN(TextAutomaton outside, anything(one.names).without(*pattern.names, budget_));
        if (!outside.empty()) split.push_back({std::move(outside), one.matched});
        if (within.empty()) continue;
        split.push_back({std::move(within), one.matched});
        split.back().matched.push_back(&pattern);
      }
      classes = std::move(split);
      if (classes.size() > kMaxNameClasses) {
        return reader_.unsupported(
            *scope.schema, "patternProperties",
            fmt::format("tells more than {} kinds of names apart, which is the limit", kMaxNameClasses));
      }
    }
  }
  return classes;
}

// Returns rules of a name and its value, one for each set of schemas that such a value must fit.
Result<std::vector<Place>> SchemaCompiler::unlisted_members(const Shape& shape, const SchemaMembers& scopes,
                                                            const std::optional<TextAutomaton>& admitted,
                                                            const std::vector<std::string_view>& listed) {
  FULMAR_ASSIGN(const std::vector<NameClass> classes, name_classes(scopes, admitted));
  std::vector<Place> members;
  for (const NameClass& one : classes) {
    if (one.names && one.names->empty()) continue;
    Demands demands;
    std::vector<const JsonValue*> speaking;
    for (const SchemaMembers::Scope& scope : scopes.scopes()) {
      bool matched = false;
      for (const auto& pattern : scope.patterns) {
        if (std::find(one.matched.begin(), one.matched.end(), &pattern) == one.matched.end()) continue;
        matched = true;
        speaking.push_back(scope.schema);
        demands.push_back({pattern.value, true});
      }
      if (scope.rest) speaking.push_back(scope.schema);
      if (!matched && scope.rest) demands.push_back({scope.rest, true});
    }
    scopes.add_unevaluated(shape, speaking, demands);
    settle(demands);
    if (nothing_fits(demands)) continue;
    // Members that nothing describes are written only where they are wanted, or nothing else could be.
    if (demands.empty() && one.matched.empty() && !scopes.describes_rest() && shape.unevaluated.empty() &&
        !options_.unlisted && !listed.empty()) {
      continue;
    }
    const Place after = rules_.colon(grammar_.call(rule_of(demands), grammar_.end()));
    if (one.names) {
      TextAutomaton names = *one.names;
      if (!listed.empty()) {
        FULMAR_ASSIGN(const TextAutomaton those, listed_texts(listed, budget_));
        FULMAR_ASSIGN(names, names.without(those, budget_));
      }
      if (!names.empty()) members.push_back(names.quoted(grammar_, after));
    } else if (listed.empty()) {
      members.push_back(rules_.string(0, -1, after));
    } else {
      members.push_back(other_name(listed, after));
    }
  }
  return members;
}

Result<std::optional<Place>> SchemaCompiler::object_body(const Shape& shape) {
  FULMAR_TRY(check_excluded(kObject, shape));
  FULMAR_ASSIGN(const SchemaMembers scopes, SchemaMembers::of(shape, reader_, texts_));
  FULMAR_ASSIGN(const auto admitted, admitted_names(shape));
  std::vector<std::string_view> never;
  bool possible = true;
  FULMAR_ASSIGN(const std::vector<Member> members, listed_members(shape, scopes, admitted, never, possible));
  if (!possible) return std::optional<Place>();
  std::vector<std::string_view> spoken_of = never;
  for (const Member& member : members) spoken_of.push_back(member.name);
  FULMAR_ASSIGN(const std::vector<Place> others, unlisted_members(shape, scopes, admitted, spoken_of));
  std::optional<Rule> unlisted;
  if (!others.empty()) unlisted = grammar_.rule(grammar_.branch(others));
  if (options_.order == MemberOrder::any && members.size() > 1) {
    return members_in_any_order(members, unlisted, shape);
  }
  return members_in_order(members, unlisted, shape);
}

}  // namespace fulmar
