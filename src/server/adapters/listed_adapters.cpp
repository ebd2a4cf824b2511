// Checks a list and reads it.
#include "server/adapters/listed_adapters.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "net/json.h"
#include "server/core/fields.h"

namespace fulmar {
namespace {

// One adapter a request can have a scale other than 0.
constexpr size_t kMostListed = 1024;

}  // namespace

std::variant<std::vector<ListedAdapter>, ApiError> read_listed(std::string_view name,
                                                               const JsonValue& value) {
  if (!value.is_array()) {
    return bad_value(fmt::format("{} is {}; wanted a list of {{\"id\", \"scale\"}}", name, describe(value)));
  }
  const JsonValue::Array& entries = value.as_array();
  if (entries.size() > kMostListed) {
    return bad_value(
        fmt::format("{} lists {} adapters; at most {} are allowed", name, entries.size(), kMostListed));
  }
  std::vector<ListedAdapter> list;
  for (const JsonValue& one : entries) {
    const JsonValue *number = one.find("id"), *scale = one.find("scale");
    const std::optional<int64_t> id = number ? lenient_int(*number) : std::nullopt;
    const double factor = scale ? lenient_number(*scale).value_or(NAN) : NAN;
    if (!id || !std::isfinite(factor)) {
      return bad_value(
          fmt::format("{} holds {}; wanted objects of a whole number 'id' and a number 'scale' in it", name,
                      describe(one)));
    }
    list.push_back({*id, factor});
  }
  return list;
}

}  // namespace fulmar
