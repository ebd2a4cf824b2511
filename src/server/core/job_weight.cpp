// Scans a body for what makes its work heavy.
#include "server/core/job_weight.h"

#include <algorithm>
#include <iterator>

namespace fulmar {
namespace {

// Bodies up to this are light work.
constexpr size_t kLightBody = size_t{16} << 10;

}  // namespace

bool is_compressed(const Headers& headers) {
  const std::string_view coding = headers.get("Content-Encoding");
  return equals_ignoring_case(coding, "gzip") || equals_ignoring_case(coding, "x-gzip");
}

bool may_hold_schema(std::string_view body) {
  // Parts of names; a backslash may hide one.
  constexpr std::string_view kParts[] = {"tool",  "format", "schema",  "guided", "structured",
                                         "regex", "ebnf",   "grammar", "choice", "\\u00"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return body.find(part) != std::string_view::npos; });
}

JobWeight weight_of(const HttpRequest& request) {
  const bool heavy =
      request.body.size() > kLightBody || is_compressed(request.headers) || may_hold_schema(request.body);
  return heavy ? JobWeight::heavy : JobWeight::light;
}

}  // namespace fulmar
