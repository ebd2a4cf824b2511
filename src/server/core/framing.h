// How the events of a stream are framed: the text around each one and the mark at the end. Knows no family's
// shapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fulmar {

enum class Framing : uint8_t {
  done_marked,  // server-sent events, the last one "[DONE]"
  plain,        // server-sent events, nothing after the last one
  named,        // server-sent events whose names are the member "type", which their JSON begins with
  lines,        // one JSON text a line
};

std::string_view content_type_of(Framing framing);
// Frames one event. `json`: one value without line ends.
std::string framed(Framing framing, std::string_view json);
// Returns the text that follows the last event; empty for none.
std::string_view end_mark(Framing framing);

}  // namespace fulmar
