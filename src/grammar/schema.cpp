// The list of open rules, alternatives, listed values, and the choice by kind.
#include "grammar/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

bool lists_values(const JsonValue& schema) {
  return schema.is_object() && !schema.find("$ref") && (schema.find("const") || schema.find("enum"));
}

// Adds the place of a schema with the keywords that demand something there; the parts of an allOf have places
// of their own.
void add_asking(const SchemaDocument& document, const JsonValue& schema, std::vector<std::string>& asking) {
  constexpr size_t kMostPlaces = 8, kMostKeywords = 12;
  if (asking.size() >= kMostPlaces || !schema.is_object()) return;
  std::vector<std::string> keywords;
  for (const auto& [keyword, value] : schema.as_object().members()) {
    const bool parts = keyword == "allOf" && value.is_array();
    if (asserts(keyword) && !parts && keywords.size() < kMostKeywords)
      keywords.push_back("'" + keyword + "'");
  }
  if (!keywords.empty()) {
    asking.push_back(fmt::format("{} at '{}'", fmt::join(keywords, ", "), document.place_of(schema)));
  }
  const JsonValue* all = schema.find("allOf");
  if (!all || !all->is_array()) return;
  for (const JsonValue& part : all->as_array()) add_asking(document, part, asking);
}

std::vector<std::string> asking_in(const SchemaDocument& document, const Demands& demands) {
  std::vector<std::string> asking;
  for (const auto& demand : demands) add_asking(document, *demand.schema, asking);
  return asking;
}

// Names a place that admits nothing, and what demands something there.
std::string emptied_text(const SchemaDocument& document, const Demands& demands) {
  const std::vector<std::string> asking = asking_in(document, demands);
  const std::string place = document.place_of(*demands.front().schema);
  if (asking.empty()) return fmt::format("the schema at '{}' admits no value", place);
  return fmt::format("the schema at '{}' admits no value: {} leave none together", place,
                     fmt::join(asking, "; "));
}

}  // namespace

SchemaCompiler::SchemaCompiler(const JsonValue& document, Grammar& grammar, JsonRules& rules, Budget& budget,
                               SchemaOptions options)
    : grammar_(grammar),
      rules_(rules),
      budget_(budget),
      options_(options),
      document_(document),
      reader_(document_, budget, options.loosened),
      texts_(reader_),
      expansion_(reader_, texts_),
      numbers_(grammar, rules) {}

Result<Rule> SchemaCompiler::compile() {
  const Demands root = {{&document_.root(), true}};
  const Rule whole = rule_of(root);
  while (!open_.empty()) {
    const Open next = std::move(open_.back());
    open_.pop_back();
    FULMAR_TRY(budget_.take(Budget::Item::schemas));
    auto body = body_of(next.demands);
    if (!body && options_.loosened) body = reader_.loosens(body.error()) ? loosened_body(next.demands) : body;
    if (!body) return body.error();
    if (!*body && emptied_.empty()) emptied_ = emptied_text(document_, next.demands);
    if (!*body && next.rule == whole) return Error{ErrorKind::invalid, emptied_};
    grammar_.begin(next.rule, *body ? **body : grammar_.nothing());
  }
  return whole;
}

// Returns any value, or any object for the whole document: arguments of functions are always objects.
Result<std::optional<Place>> SchemaCompiler::loosened_body(const Demands& demands) {
  const bool root = demands.size() == 1 && demands.front().schema == &document_.root();
  const Rule any = root ? rules_.any_object(kFreeDepth) : rules_.any_value(kFreeDepth);
  return std::optional(grammar_.call(any, grammar_.end()));
}

Rule SchemaCompiler::rule_of(Demands demands) {
  settle(demands);
  if (demands.empty()) return rules_.any_value(kFreeDepth - 1);
  Demands key = demands;
  std::sort(key.begin(), key.end());
  const auto [found, fresh] = known_.emplace(std::move(key), -1);
  if (!fresh) return found->second;
  found->second = grammar_.new_rule();
  open_.push_back({std::move(demands), found->second});
  return found->second;
}

// Returns the alternatives of demands that consist of nothing else; null: there is more to them. Such lists
// keep a rule for each alternative, so that what many schemas refer to is compiled once.
Result<const JsonValue::Array*> SchemaCompiler::plain_alternatives(const Demands& demands) {
  const JsonValue::Array* list = nullptr;
  if (demands.size() != 1 || !demands.front().fits || !demands.front().schema->is_object()) return list;
  for (const auto& [keyword, value] : demands.front().schema->as_object().members()) {
    if (!asserts(keyword)) continue;
    const bool choice = keyword == "anyOf" || keyword == "oneOf" || keyword == "allOf";
    if (list || !choice || !value.is_array() || value.as_array().empty()) return nullptr;
    if (keyword == "allOf" && value.as_array().size() != 1) return nullptr;
    list = &value.as_array();
    if (keyword != "oneOf") continue;
    constexpr size_t kMostCompared = 256;
    if (list->size() > kMostCompared) return nullptr;
    FULMAR_ASSIGN(const bool apart, expansion_.all_apart(*list));
    if (!apart) return nullptr;
  }
  return list;
}

// Takes one of the alternatives. Those that list values share a prefix tree; others are ways of their own.
Result<std::optional<Place>> SchemaCompiler::alternatives(const JsonValue::Array& list) {
  std::vector<Place> choices;
  std::vector<std::string> texts;
  size_t ways = 0;
  for (const JsonValue& part : list) {
    if (!lists_values(part)) {
      ++ways;
      choices.push_back(grammar_.call(rule_of({{&part, true}}), grammar_.end()));
      continue;
    }
    FULMAR_ASSIGN(const auto shapes, expansion_.shapes_of({{&part, true}}));
    const size_t before = texts.size() + choices.size();
    for (const Shape& shape : shapes) FULMAR_TRY(add_values(shape, texts, choices));
    const bool none = texts.size() + choices.size() == before;
    const bool has_format =
        std::any_of(shapes.begin(), shapes.end(), [](const Shape& shape) { return !shape.formats.empty(); });
    // A rule of its own tells of a format that leaves nothing.
    if (none && has_format) choices.push_back(grammar_.call(rule_of({{&part, true}}), grammar_.end()));
  }
  if (ways > kMaxChoices) {
    return Error{ErrorKind::unsupported,
                 fmt::format("the list at '{}' holds {} alternatives beside those of 'const' and 'enum'; at "
                             "most {} are allowed",
                             document_.place_of(list.front()), ways, kMaxChoices)};
  }
  if (!texts.empty()) choices.push_back(grammar_.one_of(std::move(texts), grammar_.end()));
  if (choices.empty()) return std::optional<Place>();
  return std::optional(grammar_.branch(choices));
}

Result<std::optional<Place>> SchemaCompiler::body_of(const Demands& demands) {
  FULMAR_ASSIGN(const JsonValue::Array* list, plain_alternatives(demands));
  if (list) return alternatives(*list);
  // A reference by itself shares the rule of what it means.
  const JsonValue& first = *demands.front().schema;
  const bool alone = demands.size() == 1 && demands.front().fits && first.is_object();
  if (alone && first.find("$ref")) {
    const auto& members = first.as_object().members();
    const bool only = std::all_of(members.begin(), members.end(), [&](const JsonObject::Member& member) {
      return member.first == "$ref" || !asserts(member.first) || !document_.counts_beside_reference();
    });
    const auto meant = document_.referred(first, "$ref");
    if (only && meant) {
      return std::optional(grammar_.call(rule_of({{*meant, true}}), grammar_.end()));
    }
  }
  FULMAR_ASSIGN(auto shapes, expansion_.shapes_of(demands));
  FULMAR_ASSIGN(auto body, any_of(shapes));
  if (body) return body;
  const auto format = take_formats(demands, shapes);
  if (!format) return body;
  FULMAR_ASSIGN(body, any_of(shapes));
  if (body) FULMAR_TRY(give_up(*format, demands));
  return body;
}

// Removes the formats from shapes that no value fits, and returns the first; nothing: there is none that may
// be given up. JSON Schema lets formats be mere annotations, so an author may not have meant one. Not with
// refused schemas ('not'): if a format appears there, too, it is right that nothing fits.
std::optional<Shape::Described> SchemaCompiler::take_formats(const Demands& demands,
                                                             std::vector<Shape>& shapes) {
  const auto refuses = [](const Demand& demand) { return !demand.fits; };
  if (std::any_of(demands.begin(), demands.end(), refuses)) return std::nullopt;
  std::optional<Shape::Described> first;
  for (Shape& shape : shapes) {
    if (!first && !shape.formats.empty()) first = shape.formats.front();
    shape.formats.clear();
  }
  return first;
}

// Notes that a format is not kept, or returns the error that refuses it; without the format some values fit.
Status SchemaCompiler::give_up(const Shape::Described& format, const Demands& demands) {
  const Error error =
      reader_.unsupported(*format.schema, format.keyword,
                          fmt::format("is {}, which no value is that the keywords beside it let be: {}",
                                      describe(*format.schema->find(format.keyword)),
                                      fmt::join(asking_in(document_, demands), "; ")));
  if (!reader_.loosens(error)) return error;
  return {};
}

Result<std::optional<Place>> SchemaCompiler::any_of(const std::vector<Shape>& shapes) {
  std::vector<Place> choices;
  std::vector<std::string> texts;
  for (const Shape& shape : shapes) {
    if (shape.values) {
      FULMAR_TRY(add_values(shape, texts, choices));
    } else if (shape.free()) {
      choices.push_back(grammar_.call(rules_.any_value(kFreeDepth), grammar_.end()));
    } else {
      FULMAR_TRY(add_kinds(shape, choices));
    }
  }
  if (!texts.empty()) choices.push_back(grammar_.one_of(std::move(texts), grammar_.end()));
  if (choices.empty()) return std::optional<Place>();
  return std::optional(grammar_.branch(choices));
}

// Adds the listed values that fit the rest of the shape: arrays and objects as places, others as texts.
Status SchemaCompiler::add_values(const Shape& shape, std::vector<std::string>& texts,
                                  std::vector<Place>& choices) {
  if (!shape.values) return {};
  Shape rest = shape;
  rest.values.reset();
  for (const JsonValue* one : *shape.values) {
    FULMAR_ASSIGN(const bool fitting, expansion_.fits(*one, rest));
    if (!fitting) continue;
    if (one->is_array() || one->is_object()) {
      choices.push_back(value(*one, grammar_.end()));
    } else {
      texts.push_back(json_text(*one));
    }
  }
  return {};
}

// Takes a value exactly, with the white space that may be between its tokens.
Place SchemaCompiler::value(const JsonValue& value, Place next) {
  if (value.is_array()) {
    const JsonValue::Array& list = value.as_array();
    if (list.empty()) return rules_.open("[", rules_.close_at_once("]", next));
    next = rules_.close("]", next);
    for (size_t i = list.size(); i-- > 0;) {
      next = this->value(list[i], next);
      if (i > 0) next = rules_.comma(next);
    }
    return rules_.open("[", next);
  }
  if (!value.is_object()) return grammar_.text(json_text(value), next);
  const auto& members = value.as_object().members();
  if (members.empty()) return rules_.open("{", rules_.close_at_once("}", next));
  next = rules_.close("}", next);
  for (size_t i = members.size(); i-- > 0;) {
    next = grammar_.text(json_quoted(members[i].first), rules_.colon(this->value(members[i].second, next)));
    if (i > 0) next = rules_.comma(next);
  }
  return rules_.open("{", next);
}

// Returns the kinds to write: with no type named and unlisted ones unwanted, those that keywords speak of.
Kinds SchemaCompiler::kinds_of(const Shape& shape) const {
  if (options_.unlisted || !shape.kinds.all()) return shape.kinds;
  Kinds spoken_of;
  const NumberRange numbers = shape.numbers();
  spoken_of[kNumber] = !numbers.least.endless || !numbers.most.endless || !shape.steps.empty();
  spoken_of[kString] =
      !shape.patterns.empty() || !shape.formats.empty() || shape.least_length > 0 || shape.most_length >= 0;
  spoken_of[kArray] = !shape.lists.empty() || !shape.contained.empty() || shape.unique ||
                      shape.least_items > 0 || shape.most_items >= 0;
  spoken_of[kObject] = !shape.objects.empty() || !shape.required.empty() || !shape.members.empty() ||
                       !shape.names.empty() || shape.least_members > 0 || shape.most_members >= 0;
  return spoken_of.any() ? spoken_of : shape.kinds;
}

Status SchemaCompiler::add_kinds(const Shape& shape, std::vector<Place>& choices) {
  const Kinds kinds = kinds_of(shape);
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (!kinds[kind]) continue;
    auto place = of_kind(kind, shape);
    if (!place) return place.error();
    if (*place) choices.push_back(**place);
  }
  return {};
}

Result<std::optional<Place>> SchemaCompiler::of_kind(size_t kind, const Shape& shape) {
  const Place end = grammar_.end();
  const auto excludes = [&](const std::string& text) {
    return std::any_of(shape.excluded.begin(), shape.excluded.end(),
                       [&](const JsonValue* one) { return json_text(*one) == text; });
  };
  switch (kind) {
    case kNull:
      return excludes("null") ? std::optional<Place>() : std::optional(grammar_.text("null", end));
    case kBoolean: {
      std::vector<std::string> texts;
      for (const char* text : {"true", "false"}) {
        if (!excludes(text)) texts.emplace_back(text);
      }
      if (texts.empty()) return std::optional<Place>();
      return std::optional(grammar_.one_of(std::move(texts), end));
    }
    case kString:
      return string_body(shape);
    case kArray:
      return array_body(shape);
    case kObject:
      return object_body(shape);
    default:
      return number_body(shape);
  }
}

// Refuses excluded numbers, arrays and objects, which cannot be told from others, except for empty ones.
Status SchemaCompiler::check_excluded(size_t kind, const Shape& shape) {
  for (const JsonValue* one : shape.excluded) {
    const bool concerned = (kind == kNumber && one->is_number()) || (kind == kArray && one->is_array()) ||
                           (kind == kObject && one->is_object());
    if (!concerned) continue;
    const Error error{ErrorKind::unsupported,
                      fmt::format("schema keyword 'not' refuses {} at '{}', which cannot be told from others",
                                  describe(*one), document_.place_of(*one))};
    if (!reader_.loosens(error)) return error;
  }
  return {};
}

Result<std::optional<Place>> SchemaCompiler::string_body(const Shape& shape) {
  if (shape.most_length >= 0 && shape.least_length > shape.most_length) return std::optional<Place>();
  if (texts_.plain(shape)) {
    return std::optional(rules_.string(shape.least_length, shape.most_length, grammar_.end()));
  }
  std::string asked = SchemaTexts::asked_of(shape);
  const auto known = scalars_.find(asked);
  if (known != scalars_.end()) return known->second;
  FULMAR_ASSIGN(const TextAutomaton texts, texts_.texts_of_any_length(shape));
  std::optional<Place> place;
  if (!texts.empty()) {
    auto counted =
        texts.quoted_within(grammar_, shape.least_length, shape.most_length, budget_, grammar_.end());
    if (counted) {
      place = *counted;
    } else {
      const std::string_view keyword = shape.most_length < 0 ? "minLength" : "maxLength";
      const Error error{counted.error().kind,
                        fmt::format("schema keyword '{}' {}", keyword, counted.error().text)};
      if (!reader_.loosens(error)) return error;
      place = texts.quoted(grammar_, grammar_.end());
    }
  }
  return scalars_.emplace(std::move(asked), place).first->second;
}

Result<std::optional<Place>> SchemaCompiler::number_body(const Shape& shape) {
  FULMAR_TRY(check_excluded(kNumber, shape));
  const NumberRange range = shape.numbers();
  std::string asked = fmt::format("number {} {} {} {} {} {}", range.least.text(), range.most.text(),
                                  range.above_least, range.below_most, shape.whole, shape.fractional);
  for (const auto& [size, schema] : shape.steps) asked += fmt::format(" {}", size);
  const auto known = scalars_.find(asked);
  if (known != scalars_.end()) return known->second;
  FULMAR_ASSIGN(const auto place, numbers_in(shape, range));
  return scalars_.emplace(std::move(asked), place).first->second;
}

Result<std::optional<Place>> SchemaCompiler::numbers_in(const Shape& shape, const NumberRange& range) {
  std::optional<DecimalStep> step;
  for (const auto& [size, schema] : shape.steps) {
    const auto next = decimal_step(size);
    const auto common = next && step ? common_step(*step, *next) : next;
    if (!common || shape.fractional) {
      const Error error = reader_.unsupported(
          *schema, "multipleOf",
          fmt::format("is {}; wanted a number with at most {} digits behind the point, not beside a 'not' "
                      "that refuses integers",
                      size, kMaxStepDigits));
      if (!reader_.loosens(error)) return error;
      continue;
    }
    step = common;
  }
  if (step) {
    auto place = numbers_.multiples(*step, range, shape.whole, grammar_.end());
    if (place) return place;
    const Error error = reader_.unsupported(*shape.steps.front().second, "multipleOf", place.error().text);
    if (!reader_.loosens(error)) return error;
  }
  if (shape.whole) return numbers_.whole(range, grammar_.end());
  return numbers_.between(range, shape.fractional, grammar_.end());
}

}  // namespace fulmar
