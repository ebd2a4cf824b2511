// Request lines and header fields: targets are decoded to paths that begin with '/' and end in one only where
// it was escaped, and no field of ours can break out of its line. Input: a target, a line end, then lines
// `name: value`.
#include <string>

#include "fuzz_input.h"
#include "net/http_format.h"
#include "net/url.h"

namespace {

using namespace fulmar;

// A head is lines that end in CR LF, the last one empty, without further control bytes.
void check_head(std::string_view head, size_t most_lines) {
  expect(head.ends_with("\r\n\r\n"));
  size_t lines = 0;
  while (!head.empty()) {
    const std::string_view line = take_until(head, "\r\n");
    expect(line.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
    ++lines;
  }
  expect(lines <= most_lines);
}

// Whether the path of a request target ends in an escaped slash, before slashes that are written as such.
bool ends_in_escaped_slash(std::string_view target) {
  std::string_view path = target.substr(0, target.find_first_of("?#"));
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.ends_with("%2f") || path.ends_with("%2F");
}

void check_target(std::string_view text) {
  const Result<Target> target = parse_target(text);
  if (target.ok()) {
    expect(target->path == "*" || target->path.starts_with('/'));
    expect(target->path.size() == 1 || !target->path.ends_with('/') || ends_in_escaped_slash(text));
    expect(target->path.find('\0') == std::string::npos);
    const Result<std::string> again = percent_decode(percent_encode(target->path));
    expect(again.ok() && *again == target->path);
  }
  const Result<Url> url = parse_url(text);
  if (url.ok()) {
    expect(!url->host.empty() && url->target.starts_with('/'));
    (void)host_and_port(url->host, url->port);
  }
}

Headers read_headers(std::string_view text) {
  Headers headers;
  while (!text.empty() && headers.size() < 64) {
    std::string_view line = take_until(text, "\n");
    const std::string_view name = take_until(line, ": ");
    headers.add(std::string(name), std::string(line));
  }
  return headers;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz_text(data, size);
  check_target(take_until(text, "\n"));
  const Headers headers = read_headers(text);
  const std::optional<Refusal> refusal = refuse_head(headers);
  if (refusal) expect(refusal->status >= 400 && !refusal->text.empty());
  for (const auto& [name, value] : headers) {
    expect(headers.find(name) != nullptr);
    (void)headers.lists(name, "close");
  }
  HttpResponse response;
  response.headers = headers;
  check_head(format_head(response, BodyFraming::length, true), headers.size() + 7);
  check_head(format_request_head("POST", "/", "host", headers, size, true), headers.size() + 6);
  return 0;
}
