// The bytes of an answer, and which request heads are refused. Pure functions over plain data.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_message.h"

namespace fulmar {

enum class BodyFraming { none, length, chunked, until_close };

// How the body of an answer travels: `stream` when its length is not known at the head.
BodyFraming body_framing(int status, bool stream, bool http_1_0);

// Status line and headers with the empty line. Bytes that could break out of a header line become spaces;
// headers that belong to the server are skipped in `response.headers`.
std::string format_head(const HttpResponse& response, BodyFraming framing, bool keep_alive);

// Request line and headers with the empty line, for a body of `body_bytes`. Same rules as format_head;
// `target` must be free of spaces and control bytes.
std::string format_request_head(std::string_view method, std::string_view target, std::string_view host,
                                const Headers& headers, size_t body_bytes, bool keep_alive);

// One chunk of a chunked body. `bytes` must not be empty: that would end the body.
std::string format_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

struct Refusal {
  int status = 400;
  std::string text;
};

// What is wrong with a head that follows the grammar, if anything: both or unknown framings, unknown
// encodings and expectations.
std::optional<Refusal> refuse_head(const Headers& headers);

}  // namespace fulmar
