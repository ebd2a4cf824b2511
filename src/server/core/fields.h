// Reads the fields of a request one by one and remembers the first fault, so that a parser reads as a plain
// list of fields and is checked once at its end. Knows no route.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/json_value.h"
#include "server/core/errors.h"

namespace fulmar {

// Present in the sense of docs/http.md, "One path for two families": not null (pointer or value), not "" and
// not [].
bool holds_something(const JsonValue* value);

// A field is looked up at the top of the body, then in its object `params` (nested defaults of some clients).
// In both it has to be the same. null counts as absent. After a fault every getter keeps answering, so that
// callers need no checks between.
class Fields {
 public:
  // The body must outlive the reader.
  explicit Fields(const JsonValue& body);

  // The field's value, or null when it is absent or null.
  const JsonValue* find(std::string_view name) const;
  // Faults a member of the object `nested` that is a field of the body, too, with another value. `place`: the
  // object's name.
  void check_beside(const JsonValue& nested, std::string_view place);
  bool present(std::string_view name) const { return holds_something(find(name)); }

  // Lenient scalars (docs/http.md, "Requests"). Nothing when absent or at fault.
  std::optional<bool> boolean(std::string_view name);
  std::optional<int64_t> integer(std::string_view name, int64_t least = std::numeric_limits<int64_t>::min(),
                                 int64_t most = std::numeric_limits<int64_t>::max());
  std::optional<double> number(std::string_view name, double least, double most);
  std::optional<uint64_t> unsigned_integer(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  // A list of lenient numbers, none of them beyond 1e9.
  std::optional<std::vector<double>> numbers(std::string_view name);
  // A list of strings; a bare string counts as a list of one.
  std::optional<std::vector<std::string>> texts(std::string_view name);
  // Null when absent or at fault.
  const JsonObject* object(std::string_view name);

  // The first fault wins.
  void fail(ApiError error);
  // As fail, for a field that holds something else than was wanted.
  void fail_type(std::string_view name, const JsonValue& found, std::string_view wanted);
  bool failed() const { return fault_.has_value(); }
  const ApiError& fault() const { return *fault_; }

 private:
  void fail_range(std::string_view name, const JsonValue& found, std::string_view what, double least,
                  double most);

  const JsonValue& body_;
  const JsonValue* params_ = nullptr;
  std::optional<ApiError> fault_;
};

}  // namespace fulmar
