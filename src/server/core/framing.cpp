#include "server/core/framing.h"

#include <fmt/format.h>

#include "net/sse.h"

namespace fulmar {
namespace {

constexpr std::string_view kLinesContentType = "application/x-ndjson";
constexpr std::string_view kTypeMember = "{\"type\":\"";

std::string_view type_of(std::string_view json) {
  if (!json.starts_with(kTypeMember)) return "message";
  json.remove_prefix(kTypeMember.size());
  return json.substr(0, json.find('"'));
}

}  // namespace

std::string_view content_type_of(Framing framing) {
  return framing == Framing::lines ? kLinesContentType : kSseContentType;
}

std::string framed(Framing framing, std::string_view json) {
  switch (framing) {
    case Framing::lines:
      return std::string(json) + "\n";
    case Framing::named:
      return fmt::format("event: {}\n{}", type_of(json), sse_event(json));
    case Framing::plain:
    case Framing::done_marked:
      break;
  }
  return sse_event(json);
}

std::string_view end_mark(Framing framing) {
  return framing == Framing::done_marked ? kSseDone : std::string_view();
}

}  // namespace fulmar
