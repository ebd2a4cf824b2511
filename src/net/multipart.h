// Parses a multipart/form-data body (RFC 7578). Pure; the results are views into the body.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct FormPart {
  std::string name;
  std::string filename;      // empty: not a file
  std::string_view content;  // of the body
};

// Bounds: a form with more parts, or a part with a longer head, is refused.
inline constexpr size_t kMostFormParts = 64;
inline constexpr size_t kLongestPartHead = 4096;

// Returns the parts in order. `content_type` is the request's header field, which names the boundary. Errors
// (invalid) say what is wrong and where.
Result<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body);

}  // namespace fulmar
