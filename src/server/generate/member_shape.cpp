// Walks a value and its shape together.
#include "server/generate/member_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/meter.h"
#include "net/json.h"
#include "server/core/fields.h"

namespace fulmar {
namespace {

constexpr size_t kLongestShownKey = 40;

// A place within a field, as a chain to its start: names are written only where they are told.
struct Place {
  const Place* above;
  std::string_view name;  // of a member
  const size_t* index;    // of an element; null: a member
};

std::string shown(const Place& place) {
  if (!place.above) return std::string(place.name);
  const std::string text = shown(*place.above);
  return place.index ? fmt::format("{}[{}]", text, *place.index) : fmt::format("{}.{}", text, place.name);
}

std::string quoted(const Place& place) { return quoted_key(shown(*place.above) + ".", place.name); }

void walk(const JsonValue& value, const MemberShape& shape, const Place& place, UnreadMembers& found);

void note(const Place& place, const JsonValue& value, MemberShape::Way way, UnreadMembers& found) {
  if (!asks_for_something(value)) return;
  if (way == MemberShape::Way::told) return found.add_told(quoted(place));
  if (!found.refused) found.refused.emplace(shown(place), &value);
}

void walk_object(const JsonObject& object, const MemberShape& shape, const Place& place,
                 UnreadMembers& found) {
  count_work(object.members().size());
  for (const auto& [name, value] : object.members()) {
    const Place here{&place, name, nullptr};
    const auto known = shape.members().find(name);
    if (known == shape.members().end()) {
      if (asks_for_something(value)) found.add_unknown(quoted(here));
    } else if (known->second.way != MemberShape::Way::read) {
      note(here, value, known->second.way, found);
    } else {
      walk(value, *known->second.shape, here, found);
    }
  }
}

void walk_typed(const JsonValue& value, const MemberShape& shape, const Place& place, UnreadMembers& found) {
  const JsonValue* type = value.find("type");
  const std::string_view word = type && type->is_string() ? std::string_view(type->as_string()) : "";
  auto chosen = shape.types().find(word);
  if (chosen == shape.types().end()) chosen = shape.types().find("*");
  if (chosen != shape.types().end()) walk(value, *chosen->second, place, found);
}

void walk(const JsonValue& value, const MemberShape& shape, const Place& place, UnreadMembers& found) {
  if (value.is_object() && !shape.types().empty()) return walk_typed(value, shape, place, found);
  if (value.is_object() && !shape.members().empty())
    return walk_object(value.as_object(), shape, place, found);
  if (!value.is_array() || !shape.element()) return;
  for (size_t i = 0; i < value.as_array().size(); ++i)
    walk(value.as_array()[i], *shape.element(), {&place, {}, &i}, found);
}

// Adds a name, or counts it where the list is full.
void add(std::vector<std::string>& list, size_t& more, std::string name) {
  if (list.size() < UnreadMembers::kMostShown) {
    list.push_back(std::move(name));
  } else {
    ++more;
  }
}

}  // namespace

void MemberShape::add_words(std::string_view words) {
  static const auto any = std::make_shared<const MemberShape>();
  for (std::string_view word : words_of(words, ' ')) {
    const Way way = word.starts_with('!') ? Way::refused : word.starts_with('~') ? Way::told : Way::read;
    if (way != Way::read) word.remove_prefix(1);
    FULMAR_CHECK(!word.empty() && members_.emplace(word, Member{way, any}).second, "a shape's words");
  }
}

std::shared_ptr<const MemberShape> MemberShape::parse(std::string_view text) {
  if (text == "any") return std::make_shared<const MemberShape>();
  const auto parsed = parse_json(text);
  FULMAR_CHECK(parsed.ok(), "the shape of a field's members is no JSON");
  return parse(*parsed);
}

std::shared_ptr<const MemberShape> MemberShape::parse(const JsonValue& text) {
  auto shape = std::make_shared<MemberShape>();
  if (text.is_array()) {
    shape->element_ = parse(text.as_array().front());
  } else if (text.is_object()) {
    for (const auto& [name, inner] : text.as_object().members()) {
      if (name.empty()) {
        shape->add_words(inner.as_string());
      } else if (name == "?") {
        for (const auto& [type, one] : inner.as_object().members()) shape->types_.emplace(type, parse(one));
      } else {
        shape->members_.emplace(name, Member{Way::read, parse(inner)});
      }
    }
  }
  return shape;
}

void UnreadMembers::add_unknown(std::string name) { add(unknown, more_unknown, std::move(name)); }
void UnreadMembers::add_told(std::string name) { add(told, more_told, std::move(name)); }

std::string quoted_key(std::string_view place, std::string_view key) {
  return key.size() > kLongestShownKey ? fmt::format("a key of {} bytes", key.size())
                                       : fmt::format("'{}{}'", place, key);
}

std::string told_names(std::string_view what, const std::vector<std::string>& names, size_t more) {
  return fmt::format("{}: {}{}", what, fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : std::string());
}

bool asks_for_something(const JsonValue& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_number()) return value.as_double() != 0;
  return holds_something(&value) && !(value.is_object() && value.as_object().members().empty());
}

void find_unread(const JsonValue& value, const MemberShape& shape, std::string_view place,
                 UnreadMembers& found) {
  walk(value, shape, {nullptr, place, nullptr}, found);
}

}  // namespace fulmar
