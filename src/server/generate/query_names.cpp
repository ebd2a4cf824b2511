// Reads the words of RouteNote::query.
#include "server/generate/query_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/core/fields.h"
#include "server/generate/kept_fields.h"

namespace fulmar {
namespace {

constexpr std::string_view kKey = "key";  // of routes that take the key in their URL
constexpr size_t kLongestNamed = 80;

bool has(std::string_view words, std::string_view name) {
  const auto list = words_of(words, ' ');
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool asks(std::string_view value) { return !value.empty() && value != "false" && value != "0"; }

// Tells whether a route does another thing where one of its parameters is dropped.
bool changes(const Route& route) { return route.method != "GET" && field_rule(route) == FieldRule::refused; }

ApiError fault_of(const std::string& name, const std::string& value, std::string_view what) {
  return bad_value(fmt::format("the URL's '{}' is '{}', {}", name.substr(0, kLongestNamed),
                               value.substr(0, kLongestNamed), what),
                   name.substr(0, kLongestNamed), "unsupported_parameter");
}

}  // namespace

void check_query(const Route& route, const Query& query, UnkeptFields& found) {
  const std::string_view words = route.note->query;
  UnreadMembers unread;
  for (const auto& [name, value] : query) {
    const bool read = has(words, name) || (name == kKey && route.access == Access::key_or_query);
    if (found.at_once && found.fault) return;
    if (!read && !asks(value)) continue;
    if (read && *query.find(name) != value) {
      found.at_once = true;
      found.fault = fault_of(name, value, fmt::format("and '{}', too; wanted one", *query.find(name)));
    } else if (!read && (changes(route) || has(words, "!" + name))) {
      found.at_once = true;
      found.fault = fault_of(name, value, "which this route does not take");
    } else if (!read) {
      unread.add_unknown(quoted_key("", name));
    }
  }
  if (!unread.unknown.empty())
    found.warnings.push_back(
        told_names("not known in the URL and ignored", unread.unknown, unread.more_unknown));
}

}  // namespace fulmar
