// Writes compact JSON by appending to a string. Builds no tree: each call writes its text at once.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "net/json_value.h"

namespace fulmar {

// The writer places commas and colons; the caller must pair begin/end and key/value. Text is written as
// UTF-8; each invalid byte sequence becomes U+FFFD. Floats have the shortest form that reads back exactly;
// infinities and NaN become null.
class JsonWriter {
 public:
  JsonWriter() = default;
  // Continues after `prefix`, for instance "data: ".
  explicit JsonWriter(std::string prefix) : text_(std::move(prefix)) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& null();
  JsonWriter& value(bool flag);
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) JsonWriter& value(Integer number) {
    if constexpr (std::is_signed_v<Integer>) {
      return signed_value(static_cast<int64_t>(number));
    } else {
      return unsigned_value(static_cast<uint64_t>(number));
    }
  }
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const JsonValue& tree);
  // Writes text that already is one JSON value.
  JsonWriter& raw(std::string_view json);

  // Writes key(name) and value(content).
  template <class T>
  JsonWriter& member(std::string_view name, const T& content) {
    key(name);
    return value(content);
  }

  void reserve(size_t bytes) { text_.reserve(bytes); }
  const std::string& text() const { return text_; }
  std::string take() { return std::exchange(text_, {}); }
  // Appends bytes that are not JSON, such as the end of an event's line.
  JsonWriter& append(std::string_view bytes) {
    text_.append(bytes);
    return *this;
  }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& signed_value(int64_t number);
  JsonWriter& unsigned_value(uint64_t number);
  template <class Float>
  JsonWriter& floating_value(Float number);
  void separate();
  void quote(std::string_view text);

  std::string text_;
  bool comma_due_ = false;
};

// Returns `text` as a JSON string with its quotes.
std::string json_quoted(std::string_view text);

}  // namespace fulmar
