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

// Present in the sense of docs/http.md, "One path for two families": not null (pointer or value), not "" and
// not [].
bool holds_something(const JsonValue* value);

// Returns the words of a text, in order: words_of("auto none", ' ') has two.
std::vector<std::string_view> words_of(std::string_view text, char between);

// What every body may hold beside its route's fields.
inline constexpr FieldTable kBodyFields{"body",
                                        {{"password", Takes::any(), "the key, where no header holds it"},
                                         {"params", Takes::object(), "further fields, as at the top"}}};

// A field is looked up at the top of the body, then in its object `params` (nested defaults of some clients).
// In both it has to be the same. null counts as absent. After a fault every getter keeps answering, so that
// callers need no checks between. What a field may hold is what its declaration says.
class Fields {
 public:
  using Type = Takes::Type;

  // The body must outlive the reader.
  explicit Fields(const JsonValue& body);

  // The field's value, or null when it is absent or null.
  const JsonValue* find(const Field& field) const { return member(field.name); }
  // Likewise, of a member that is declared in a table of another kind (constraint_fields.cpp).
  const JsonValue* member(std::string_view name) const;
  // Faults a member of the object `nested` that is a field of the body, too, with another value. `place`: the
  // object's name.
  void check_beside(const JsonValue& nested, std::string_view place);
  bool present(const Field& field) const { return holds_something(find(field)); }

  // Lenient scalars (docs/http.md, "Requests"). Nothing when absent or at fault.
  std::optional<bool> boolean(TypedField<Type::boolean> one);
  std::optional<int64_t> integer(TypedField<Type::integer> one);
  std::optional<double> number(TypedField<Type::number> one);
  std::optional<uint64_t> seed(TypedField<Type::seed> one);
  std::optional<std::string> text(TypedField<Type::text> one);
  // An empty text counts as absent.
  std::optional<std::string> word(TypedField<Type::word> one);
  // A list of lenient numbers, none of them beyond 1e9.
  std::optional<std::vector<double>> numbers(TypedField<Type::numbers> one);
  // A list of strings; a bare string counts as a list of one. Empty when absent or at fault.
  std::vector<std::string> texts(TypedField<Type::texts> one);
  // Null when absent or at fault.
  const JsonObject* object(TypedField<Type::object> one);

  // The value, or the one that the field is declared to have otherwise.
  bool flag(TypedField<Type::boolean> one);
  int64_t count(TypedField<Type::integer> one);

  // The first fault wins.
  void fail(ApiError error);
  // As fail, for a field that holds something else than was wanted.
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
