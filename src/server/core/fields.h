// Reads the fields of a request one by one and remembers the first fault, so that a parser reads as a plain
// list of fields and is checked once at its end. Knows no route.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/json_value.h"
#include "server/core/errors.h"
#include "server/core/field.h"

namespace fulmar {

// Tells whether a field counts as present (docs/http.md, "One path for two families"): not null (pointer or
// value), not "" and not [].
bool holds_something(const JsonValue* value);

// Returns the words of a text, in order: words_of("auto none", ' ') has two.
std::vector<std::string_view> words_of(std::string_view text, char between);

// What every body may hold beside its route's fields.
inline constexpr FieldTable kBodyFields{"body",
                                        {{"password", Takes::any(), "the key, where no header holds it"},
                                         {"params", Takes::object("any"), "further fields, as at the top"}}};

// A field is looked up at the top of the body, then in its object `params` (nested defaults of some clients).
// In both it has to be the same. null counts as absent. After a fault every getter keeps answering, so that
// callers need no checks between. What a field may hold is what its declaration says.
class Fields {
 public:
  using Type = Takes::Type;

  // Keeps a reference: the body must outlive the reader.
  explicit Fields(const JsonValue& body);

  // Returns the field's value, or null when it is absent or a JSON null.
  const JsonValue* find(const Field& field) const { return member(field.name); }
  // Returns a member as find() does, for names that are declared in a table of another kind
  // (constraint_fields.cpp).
  const JsonValue* member(std::string_view name) const;
  // Records a fault if a member of `nested` is also a field of the body but with another value. `place`: the
  // object's name.
  void check_beside(const JsonValue& nested, std::string_view place);
  bool present(const Field& field) const { return holds_something(find(field)); }

  // Reads lenient scalars (docs/http.md, "Requests"). These return nothing when the field is absent or at
  // fault.
  std::optional<bool> boolean(TypedField<Type::boolean> one);
  std::optional<int64_t> integer(TypedField<Type::integer> one);
  std::optional<double> number(TypedField<Type::number> one);
  std::optional<uint64_t> seed(TypedField<Type::seed> one);
  std::optional<std::string> text(TypedField<Type::text> one);
  // Reads one of the declared words; an empty text counts as absent.
  std::optional<std::string> word(TypedField<Type::word> one);
  // Reads a list of lenient numbers of magnitude at most 1e9.
  std::optional<std::vector<double>> numbers(TypedField<Type::numbers> one);
  // Reads a list of strings; a bare string counts as a list of one. Empty when absent or at fault.
  std::vector<std::string> texts(TypedField<Type::texts> one);
  // Returns an object, or null when absent or at fault.
  const JsonObject* object(TypedField<Type::object> one);

  // Reads a flag or a count; when absent or at fault returns the default of the field's declaration.
  bool flag(TypedField<Type::boolean> one);
  int64_t count(TypedField<Type::integer> one);

  // Records a fault; only the first one counts.
  void fail(ApiError error);
  // Records that a field holds a value of another type than `wanted`.
  void fail_type(std::string_view name, const JsonValue& found, std::string_view wanted);
  bool failed() const { return fault_.has_value(); }
  const ApiError& fault() const { return *fault_; }

 private:
  void fail_range(const Field& field, const JsonValue& found, std::string_view what);

  const JsonValue& body_;
  const JsonValue* params_ = nullptr;
  std::optional<ApiError> fault_;
};

}  // namespace fulmar
