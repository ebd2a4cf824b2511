// Formats the bytes of an answer, and decides which request heads are refused. Pure functions over data.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_message.h"

namespace fulmar {

enum class BodyFraming { none, length, chunked, until_close };

// Returns how the body of an answer is framed; `stream`: its length is unknown when the head is sent.
BodyFraming body_framing(int status, bool stream, bool http_1_0);

// Formats the status line and headers with the empty line. Bytes that could break out of a header line become
// spaces; skips headers in `response.headers` that belong to the server.
std::string format_head(const HttpResponse& response, BodyFraming framing, bool keep_alive);

// Formats the request line and headers with the empty line, for a body of `body_bytes`. Same rules as
// format_head; `target` must be free of spaces and control bytes.
std::string format_request_head(std::string_view method, std::string_view target, std::string_view host,
                                const Headers& headers, size_t body_bytes, bool keep_alive);

// Formats one chunk of a chunked body. `bytes` must not be empty: that would end the body.
std::string format_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

struct Refusal {
  int status = 400;
  std::string text;
};

// Returns why a well-formed head is refused, if it is: both or unknown framings, unknown encodings or
// expectations, and headers that are read as data (X-RWKV-..., X-Fulmar-..., Fulmar-...) that are no UTF-8 or
// are given twice with different values. No other header may become an id, an owner or another text that is
// kept.
std::optional<Refusal> refuse_head(const Headers& headers);

}  // namespace fulmar
