// Beast's parser, fed by hand.
#include "net/request_reader.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "net/url.h"

namespace fulmar {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

// The most bytes of empty lines before a request; what follows them is an error.
constexpr size_t kMostEmptyBytes = 16;
// Whoever looks for a field looks through all.
constexpr size_t kMostFields = 256;

// "0\r\n\r\n", the least that ends a chunked body. Beast's parser takes for granted that it gets as much.
constexpr size_t kLeastChunkBytes = 5;

Headers copy_headers(const http::fields& fields) {
  Headers headers;
  for (const auto& field : fields) headers.add(std::string(field.name_string()), std::string(field.value()));
  return headers;
}

}  // namespace

struct RequestReader::Parser {
  http::request_parser<http::string_body> http;
};

RequestReader::RequestReader(size_t most_head_bytes)
    : parser_(std::make_unique<Parser>()), most_head_(most_head_bytes) {
  constexpr size_t kMost = std::numeric_limits<uint32_t>::max();
  parser_->http.header_limit(static_cast<uint32_t>(std::min(most_head_bytes, kMost)));
  parser_->http.body_limit(boost::none);  // until the head says which one holds
}

RequestReader::~RequestReader() = default;

bool RequestReader::body_is_next() const { return !parser_->http.is_done(); }
bool RequestReader::begun() const { return parser_->http.got_some(); }
bool RequestReader::keep_alive() const { return parser_->http.get().keep_alive(); }
bool RequestReader::http_1_0() const { return parser_->http.get().version() < 11; }

RequestReader::Step RequestReader::refuse(int status, std::string text) {
  refusal_ = {status, std::move(text)};
  return Step::refused;
}

// Skips empty lines. Returns false while the next byte may still belong to one.
bool RequestReader::skip_empty_lines(ReadBuffer& buffer) {
  while (!parser_->http.got_some() && skipped_ < kMostEmptyBytes && buffer.text().starts_with("\r\n")) {
    buffer.consume(2);
    skipped_ += 2;
  }
  return parser_->http.got_some() || !(buffer.text().empty() || buffer.text() == "\r");
}

RequestReader::Step RequestReader::read_head(ReadBuffer& buffer) {
  if (!skip_empty_lines(buffer)) return Step::more;
  error_code failure;
  const size_t taken = parser_->http.put(buffer.data(), failure);
  buffer.consume(taken);
  head_received_ += taken;
  const bool waits = failure == http::error::need_more;
  if (head_received_ > most_head_ || (waits && buffer.room() == 0)) {
    failure = http::error::header_limit;
  } else if (waits) {
    return Step::more;
  }
  if (parser_->http.is_header_done() || failure) take_head();
  if (failure == http::error::header_limit) {
    return refuse(431, "the head is larger than " + std::to_string(most_head_) + " bytes");
  }
  if (failure == http::error::bad_version) return refuse(505, "malformed HTTP request: " + failure.message());
  if (failure) return refuse(400, "malformed HTTP request: " + failure.message());
  if (!parser_->http.is_header_done()) return Step::more;

  if (request_.headers.size() > kMostFields) {
    return refuse(431, "the head has " + std::to_string(request_.headers.size()) +
                           " fields, wanted at most " + std::to_string(kMostFields));
  }
  if (auto refusal = refuse_head(request_.headers)) return refuse(refusal->status, std::move(refusal->text));
  if (http_1_0() && request_.headers.find("Transfer-Encoding"))
    return refuse(400, "Transfer-Encoding in HTTP/1.0, which has none; wanted Content-Length");
  const auto hosts = std::count_if(request_.headers.begin(), request_.headers.end(), [](const auto& field) {
    return equals_ignoring_case(field.first, "Host");
  });
  if (hosts > 1 || (hosts == 0 && !http_1_0())) {
    return refuse(400,
                  "the head has " + std::to_string(hosts) + " fields Host, wanted one");  // RFC 9112, 3.2
  }
  Result<Target> target = parse_target(request_.target);
  if (!target.ok()) return refuse(400, target.error().text);
  return Step::done;
}

void RequestReader::take_head() {
  const auto& message = parser_->http.get();
  request_.method = std::string(message.method_string());
  request_.target = std::string(message.target());
  request_.headers = copy_headers(message.base());
  Result<Target> target = parse_target(request_.target);
  if (!target.ok()) {  // the refusal has the shape of the path's family all the same
    const auto path = percent_decode(raw_path(request_.target));
    request_.path = path.ok() ? *path : std::string(raw_path(request_.target));
    return;
  }
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
}

void RequestReader::limit_body(size_t most_bytes) {
  most_body_ = most_bytes;
  parser_->http.body_limit(most_bytes);
  parser_->http.eager(true);
}

// Returns the most bytes of the body and its framing.
size_t RequestReader::most_raw() const {
  return most_body_ + std::min(most_head_, std::numeric_limits<size_t>::max() - most_body_);
}

RequestReader::Step RequestReader::read_body(ReadBuffer& buffer) {
  auto& parser = parser_->http;
  const auto too_large = [&] {
    return refuse(413, "the body is larger than " + std::to_string(most_body_) + " bytes");
  };
  if (parser.content_length().value_or(0) > most_body_) return too_large();
  const size_t least = parser.chunked() ? kLeastChunkBytes : 1;
  while (!parser.is_done() && buffer.size() >= least) {
    error_code failure;
    const size_t taken = parser.put(buffer.data(), failure);
    buffer.consume(taken);
    body_received_ += taken;
    if (failure == http::error::body_limit || body_received_ > most_raw()) return too_large();
    if (failure == http::error::need_more) {
      if (buffer.room() > 0 && buffer.size() <= most_head_) break;
      return refuse(431, "the size line of a chunk, or the trailer, is larger than " +
                             std::to_string(std::min(buffer.max_size(), most_head_)) + " bytes");
    }
    if (failure) return refuse(400, "malformed HTTP request: " + failure.message());
    if (taken == 0) break;
  }
  if (!parser.is_done()) return Step::more;
  request_.body = std::move(parser.get().body());
  return Step::done;
}

}  // namespace fulmar
