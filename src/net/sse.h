// Frames server-sent events (SSE), both ways. Knows bytes only.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// The last event of every stream (docs/http.md, "Streams").
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSseContentType = "text/event-stream; charset=utf-8";

// Returns "data: <data>\n\n"; line ends inside `data` begin further data lines.
std::string sse_event(std::string_view data);

// Parses a stream that arrives in any pieces. Skips comments and the fields event, id and retry.
class SseParser {
 public:
  explicit SseParser(size_t max_event_bytes = size_t{16} << 20) : max_event_bytes_(max_event_bytes) {}

  // Calls `on_event` with the data of each event that `bytes` completes. Error corrupt, also on every later
  // call: one event exceeds the bound.
  Status feed(std::string_view bytes, const std::function<void(std::string_view data)>& on_event);

 private:
  bool take_line(const std::function<void(std::string_view data)>& on_event);

  const size_t max_event_bytes_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool at_start_ = true;
  bool after_carriage_return_ = false;
  bool broken_ = false;
};

}  // namespace fulmar
