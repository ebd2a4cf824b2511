// The JSON beside adapters: bounded parsing, typed members, and JsonCpp's text of a document.
#pragma once

#include <simdjson.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// An object and the memory that it lives in.
class ConfigJson {
 public:
  // Parses an object that nests at most 32 deep and has no name twice. `what` names it in errors (corrupt).
  static Result<ConfigJson> parse(std::string_view what, const std::string& text);

  simdjson::dom::object object() const { return object_; }
  const std::string& what() const { return what_; }

  // Returns a member; nothing where it is absent or null.
  std::optional<simdjson::dom::element> find(std::string_view name) const;
  // Returns whether a member is there and neither false, null, 0, "" nor an empty list or object.
  bool truthy(std::string_view name) const;

  // Returns a member of that type, or the fallback where it is absent. Errors name it, found and wanted.
  Result<double> number(std::string_view name, std::optional<double> fallback = {}) const;
  Result<int64_t> integer(std::string_view name, std::optional<int64_t> fallback = {}) const;
  Result<std::string> text(std::string_view name, std::optional<std::string> fallback = {}) const;

 private:
  Error wrong(std::string_view name, std::string_view wanted) const;

  std::string what_;
  std::unique_ptr<simdjson::dom::parser> parser_;
  simdjson::dom::object object_;
};

// Returns the text that JsonCpp writes of a document without indentation: names sorted by bytes, no blanks,
// numbers with point or exponent by %.17g and with a point, other characters than ASCII escaped. Members of
// the outermost object that are in `left_out` are not written.
std::string jsoncpp_text(simdjson::dom::object object, std::initializer_list<std::string_view> left_out);

// Returns a string as JSON, escaped as JsonCpp does.
std::string json_string(std::string_view text);

}  // namespace fulmar
