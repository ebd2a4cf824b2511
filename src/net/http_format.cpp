// Composes heads and chunks.
#include "net/http_format.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <iterator>

#include "base/utf8.h"

namespace fulmar {
namespace {

bool is_server_owned(std::string_view name) {
  for (const std::string_view owned :
       {"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Date"}) {
    if (equals_ignoring_case(name, owned)) return true;
  }
  return false;
}

bool is_token(std::string_view name) {
  constexpr std::string_view kSigns = "!#$%&'*+-.^_`|~";
  for (const char c : name) {
    const bool letter_or_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter_or_digit && kSigns.find(c) == std::string_view::npos) return false;
  }
  return !name.empty();
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back((byte < 0x20 && c != '\t') || byte == 0x7F ? ' ' : c);
  }
  out.append("\r\n");
}

void append_date(std::string& out) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  const size_t length = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  append_field(out, "Date", std::string_view(text, length));
}

// Tells whether a header of that name is read as data: an id, an owner, a proof.
bool is_data(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {"X-RWKV-", "X-Fulmar-", "Fulmar-"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view prefix) {
    return equals_ignoring_case(name.substr(0, prefix.size()), prefix);
  });
}

// Returns why the headers that are read as data are refused: handlers take the first of a name, and texts
// that are no UTF-8 cannot be named in a JSON answer, a URL or a body.
std::optional<Refusal> refuse_data(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (!is_data(name)) continue;
    if (!is_utf8(value)) {
      return Refusal{400, "the header " + name + " is '" + to_utf8(value.substr(0, 80)) +
                              "', which is no UTF-8; wanted UTF-8"};
    }
    if (headers.get(name) != value) {
      return Refusal{400, "the header " + name + " is given twice, with different values; wanted one"};
    }
  }
  return std::nullopt;
}

}  // namespace

BodyFraming body_framing(int status, bool stream, bool http_1_0) {
  if (status < 200 || status == 204 || status == 304) return BodyFraming::none;
  if (!stream) return BodyFraming::length;
  return http_1_0 ? BodyFraming::until_close : BodyFraming::chunked;
}

std::string format_head(const HttpResponse& response, BodyFraming framing, bool keep_alive) {
  std::string out;
  out.reserve(256);
  out.append("HTTP/1.1 ").append(std::to_string(response.status)).push_back(' ');
  out.append(reason_phrase(response.status)).append("\r\n");
  append_date(out);
  if (!response.content_type.empty() && framing != BodyFraming::none) {
    append_field(out, "Content-Type", response.content_type);
  }
  for (const auto& [name, value] : response.headers) {
    const bool repeated = !response.content_type.empty() && equals_ignoring_case(name, "Content-Type");
    if (is_token(name) && !is_server_owned(name) && !repeated) append_field(out, name, value);
  }
  if (framing == BodyFraming::length)
    append_field(out, "Content-Length", std::to_string(response.body.size()));
  if (framing == BodyFraming::chunked) append_field(out, "Transfer-Encoding", "chunked");
  append_field(out, "Connection", keep_alive && framing != BodyFraming::until_close ? "keep-alive" : "close");
  out.append("\r\n");
  return out;
}

std::string format_request_head(std::string_view method, std::string_view target, std::string_view host,
                                const Headers& headers, size_t body_bytes, bool keep_alive) {
  std::string out;
  out.reserve(256);
  out.append(method).append(" ").append(target).append(" HTTP/1.1\r\n");
  append_field(out, "Host", host);
  for (const auto& [name, value] : headers) {
    if (is_token(name) && !is_server_owned(name) && !equals_ignoring_case(name, "Host"))
      append_field(out, name, value);
  }
  const bool bodyless = body_bytes == 0 && (method == "GET" || method == "HEAD");
  if (!bodyless) append_field(out, "Content-Length", std::to_string(body_bytes));
  append_field(out, "Connection", keep_alive ? "keep-alive" : "close");
  out.append("\r\n");
  return out;
}

std::string format_chunk(std::string_view bytes) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, bytes.size(), 16).ptr;
  std::string out;
  out.reserve(bytes.size() + 20);
  out.append(digits, static_cast<size_t>(end - digits)).append("\r\n").append(bytes).append("\r\n");
  return out;
}

std::optional<Refusal> refuse_head(const Headers& headers) {
  const std::string* coding = headers.find("Transfer-Encoding");
  if (coding && headers.find("Content-Length")) {
    return Refusal{400, "both Transfer-Encoding and Content-Length are given, wanted one of them"};
  }
  if (coding && !equals_ignoring_case(*coding, "chunked")) {
    return Refusal{501, "Transfer-Encoding is '" + coding->substr(0, 40) + "', wanted 'chunked'"};
  }
  const std::string* encoding = headers.find("Content-Encoding");
  const bool known = !encoding || equals_ignoring_case(*encoding, "gzip") ||
                     equals_ignoring_case(*encoding, "x-gzip") || equals_ignoring_case(*encoding, "identity");
  if (!known) {
    return Refusal{415, "Content-Encoding is '" + encoding->substr(0, 40) + "', wanted 'gzip' or none"};
  }
  const std::string* expected = headers.find("Expect");
  if (expected && !equals_ignoring_case(*expected, "100-continue")) {
    return Refusal{417, "Expect is '" + expected->substr(0, 40) + "', wanted '100-continue'"};
  }
  return refuse_data(headers);
}

}  // namespace fulmar
