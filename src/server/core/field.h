// Declarations of request fields. Each field of a body is declared once, in a group beside the parser that
// reads it; Fields (fields.h), /openapi.json, docs/api.md and the rule of kept fields use that declaration. A
// parser names a field as kGroup["name"], which does not compile if the group lacks it or declares another
// type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>

#include "server/core/few.h"

namespace fulmar {

// What a field holds. Numbers and flags may also come as texts ("0.5", "true").
struct Takes {
  enum class Type : uint8_t { boolean, integer, number, seed, text, word, texts, list, numbers, object, any };
  static constexpr double kOpen = std::numeric_limits<double>::max();

  Type type = Type::any;
  double least = -kOpen, most = kOpen;
  std::string_view words = {};    // of a word: those that it may be, "auto none"
  std::string_view members = {};  // of a list, object or any: what is read of it (generate/member_shape.h)

  static constexpr Takes boolean() { return {Type::boolean}; }
  static constexpr Takes integer(double least = -kOpen, double most = kOpen) {
    return {Type::integer, least, most};
  }
  static constexpr Takes number(double least = -kOpen, double most = kOpen) {
    return {Type::number, least, most};
  }
  static constexpr Takes seed() { return {Type::seed}; }  // a whole number of 0 to 2^64-1
  static constexpr Takes text() { return {Type::text}; }
  static constexpr Takes word(std::string_view words) { return {Type::word, -kOpen, kOpen, words}; }
  static constexpr Takes texts() { return {Type::texts}; }  // or one text
  static constexpr Takes list(std::string_view members) { return {Type::list, -kOpen, kOpen, {}, members}; }
  static constexpr Takes numbers() { return {Type::numbers}; }
  static constexpr Takes object(std::string_view members) {
    return {Type::object, -kOpen, kOpen, {}, members};
  }
  // Takes several types, which its text names.
  static constexpr Takes any(std::string_view members = "any") {
    return {Type::any, -kOpen, kOpen, {}, members};
  }
};

struct Field {
  std::string_view name;
  Takes takes;
  std::string_view text;            // what it does, in the documents
  std::string_view otherwise = {};  // its value where it is absent, as JSON; empty: that depends on the route
};

// A group of fields that one parser reads.
struct FieldGroup {
  std::string_view name;  // in the documents
  std::span<const Field> fields;

  consteval const Field& operator[](std::string_view wanted) const {
    for (const Field& field : fields) {
      if (field.name == wanted) return field;
    }
    throw "this group declares no such field";
  }
};

// A group with room for its fields. Lives as long as the program does.
template <size_t N>
struct FieldTable : FieldGroup {
  constexpr FieldTable(std::string_view group, const Field (&declared)[N]) : FieldGroup{group, {}} {
    for (size_t i = 0; i < N; ++i) list[i] = declared[i];
    fields = list;
  }
  FieldTable(const FieldTable&) = delete;
  FieldTable& operator=(const FieldTable&) = delete;

  Field list[N] = {};
};

// A field whose declared type is checked at compile time.
template <Takes::Type type>
struct TypedField {
  const Field& field;
  consteval TypedField(const Field& declared) : field(declared) {
    if (declared.takes.type != type) throw "the field is declared to hold something else";
  }
};

// The groups of a route's body. If two fields have the same name, the first counts.
struct FieldGroups : Few<FieldGroup, 16> {
  using Few::Few;
  // Lists `groups` first, then those of `rest`.
  constexpr FieldGroups(std::initializer_list<const FieldGroup*> groups, const FieldGroups& rest)
      : Few(groups) {
    add(rest.all());
  }
  // Returns the field of that name, or null when no group has it.
  constexpr const Field* find(std::string_view name) const {
    for (const FieldGroup* group : all()) {
      for (const Field& field : group->fields) {
        if (field.name == name) return &field;
      }
    }
    return nullptr;
  }
};

}  // namespace fulmar
