// A parsed JSON document as an immutable tree. Knows nothing of the parser and of HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace fulmar {

class JsonValue;

// Members in the order of their first appearance; of equal keys the last value counts (parse_json refuses
// them).
class JsonObject {
 public:
  using Member = std::pair<std::string, JsonValue>;

  JsonObject() = default;
  explicit JsonObject(std::vector<Member> members);

  const JsonValue* find(std::string_view key) const;
  const std::vector<Member>& members() const { return members_; }

 private:
  std::vector<Member> members_;
  std::vector<uint32_t> by_key_;  // indices in key order; kept for large objects only
};

class JsonValue {
 public:
  // Whole numbers in the range of int64 are int64, larger ones uint64, everything else number.
  enum class Kind { null, boolean, int64, uint64, number, string, array, object };
  using Array = std::vector<JsonValue>;

  JsonValue() = default;
  explicit JsonValue(bool value) : content_(value) {}
  explicit JsonValue(int64_t value) : content_(value) {}
  explicit JsonValue(uint64_t value) : content_(value) {}
  explicit JsonValue(double value) : content_(value) {}
  explicit JsonValue(std::string value) : content_(std::move(value)) {}
  explicit JsonValue(Array value) : content_(std::move(value)) {}
  explicit JsonValue(JsonObject value) : content_(std::move(value)) {}

  Kind kind() const { return static_cast<Kind>(content_.index()); }
  bool is_null() const { return kind() == Kind::null; }
  bool is_bool() const { return kind() == Kind::boolean; }
  bool is_string() const { return kind() == Kind::string; }
  bool is_array() const { return kind() == Kind::array; }
  bool is_object() const { return kind() == Kind::object; }
  bool is_number() const { return kind() >= Kind::int64 && kind() <= Kind::number; }

  // Returns the value, which must be of that kind; anything else aborts.
  bool as_bool() const { return std::get<bool>(content_); }
  int64_t as_int64() const { return std::get<int64_t>(content_); }
  uint64_t as_uint64() const { return std::get<uint64_t>(content_); }
  const std::string& as_string() const { return std::get<std::string>(content_); }
  const Array& as_array() const { return std::get<Array>(content_); }
  const JsonObject& as_object() const { return std::get<JsonObject>(content_); }
  // Returns a number of any of the three kinds.
  double as_double() const;

  // Returns the member; null when this is no object or has no such member. Finds a JSON null like any value.
  const JsonValue* find(std::string_view key) const;

 private:
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, JsonObject> content_;
};

// Describes a value for errors: kind and short values: `string "abc"`, `number 5`, `array of 3`, `null`.
std::string describe(const JsonValue& value);

}  // namespace fulmar
