// Finds boundaries first, then reads the head of each part.
#include "net/multipart.h"

#include <algorithm>
#include <optional>

#include "net/http_message.h"

namespace fulmar {
namespace {

constexpr std::string_view kFormType = "multipart/form-data";
constexpr size_t kLongestBoundary = 70;
constexpr std::string_view kLineEnd = "\r\n";

Error invalid(std::string text) { return {ErrorKind::invalid, std::move(text)}; }

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Takes one value from the start of `rest`, quoted or bare, up to the next ';'. Returns nothing when a quote
// stays open.
std::optional<std::string> take_value(std::string_view& rest) {
  std::string value;
  if (rest.starts_with('"')) {
    size_t at = 1;
    while (at < rest.size() && rest[at] != '"') {
      if (rest[at] == '\\' && at + 1 < rest.size() && (rest[at + 1] == '"' || rest[at + 1] == '\\')) ++at;
      value += rest[at++];
    }
    if (at >= rest.size()) return std::nullopt;
    rest.remove_prefix(at + 1);
  } else {
    const size_t end = std::min(rest.find(';'), rest.size());
    value = trimmed(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return value;
}

// Returns the parameter `name` of a header value such as `form-data; name="file"; filename="a.pth"`.
std::optional<std::string> parameter(std::string_view value, std::string_view name) {
  size_t semicolon = value.find(';');
  while (semicolon != std::string_view::npos) {
    value = value.substr(semicolon + 1);
    const size_t equals = value.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view found = trimmed(value.substr(0, equals));
    value.remove_prefix(equals + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    std::optional<std::string> text = take_value(value);
    if (!text || equals_ignoring_case(found, name)) return text;
    semicolon = value.find(';');
  }
  return std::nullopt;
}

Result<std::string> read_boundary(std::string_view content_type) {
  const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
  if (!equals_ignoring_case(type, kFormType)) {
    return invalid("Content-Type is '" + std::string(type.substr(0, 100)) + "'; wanted " +
                   std::string(kFormType));
  }
  std::optional<std::string> boundary = parameter(content_type, "boundary");
  if (boundary && !boundary->empty() && boundary->size() <= kLongestBoundary) return std::move(*boundary);
  return invalid("Content-Type names no boundary of 1 to 70 characters");
}

// Reads the head of a part, whose Content-Disposition names it.
Result<FormPart> read_head(std::string_view head, size_t number) {
  const std::string place = "part " + std::to_string(number);
  while (!head.empty()) {
    const size_t end = std::min(head.find(kLineEnd), head.size());
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(std::min(end + kLineEnd.size(), head.size()));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return invalid(place + " of the form has a header without ':'");
    if (!equals_ignoring_case(trimmed(line.substr(0, colon)), "Content-Disposition")) continue;
    const std::string_view value = line.substr(colon + 1);
    std::optional<std::string> name = parameter(value, "name");
    if (!name || name->empty()) break;
    return FormPart{std::move(*name), parameter(value, "filename").value_or(std::string()), {}};
  }
  return invalid(place + " of the form has no Content-Disposition with a name");
}

}  // namespace

Result<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body) {
  FULMAR_ASSIGN(const std::string boundary, read_boundary(content_type));
  const std::string opening = "--" + boundary;
  const std::string delimiter = std::string(kLineEnd) + opening;
  std::vector<FormPart> parts;
  if (!body.starts_with(opening)) return invalid("the form does not begin with its boundary");
  body.remove_prefix(opening.size());
  while (!body.starts_with("--")) {
    if (!body.starts_with(kLineEnd)) return invalid("a boundary of the form does not end its line");
    body.remove_prefix(kLineEnd.size());
    if (parts.size() == kMostFormParts) {
      return invalid("the form has more than " + std::to_string(kMostFormParts) + " parts");
    }
    const size_t head_end = body.substr(0, kLongestPartHead).find("\r\n\r\n");
    if (head_end == std::string_view::npos) {
      return invalid("the head of part " + std::to_string(parts.size()) + " of the form does not end");
    }
    FULMAR_ASSIGN(FormPart part, read_head(body.substr(0, head_end), parts.size()));
    body.remove_prefix(head_end + 4);
    const size_t end = body.find(delimiter);
    if (end == std::string_view::npos) {
      return invalid("part " + std::to_string(parts.size()) + " of the form is cut off");
    }
    part.content = body.substr(0, end);
    body.remove_prefix(end + delimiter.size());
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace fulmar
