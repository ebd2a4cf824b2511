#include "hub/web_get.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>

#include "hub/web_route.h"
#include "net/read_buffer.h"
#include "net/secret.h"

namespace fulmar {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::seconds kConnectPatience{15}, kPatience{30};
constexpr std::chrono::milliseconds kBetweenGlances{100};  // at whether it is to stop
constexpr int kMostRedirects = 5;
constexpr size_t kPiece = size_t{64} << 10;  // bytes handed on at once
constexpr uint32_t kMostHead = 256u << 10;
constexpr int kMostHeads = 16;  // of one answer: interim ones (1xx) and its own

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

ssl::context trusting_context() {
  ssl::context context(ssl::context::tls_client);
  error_code ignored;
  context.set_default_verify_paths(ignored);  // SSL_CERT_FILE and SSL_CERT_DIR, else OpenSSL's own
  const std::string known = known_certificates();
  const bool told = !environment("SSL_CERT_FILE").empty();
  if (!told && !known.empty()) context.load_verify_file(known, ignored);
  context.set_verify_mode(ssl::verify_peer);
  return context;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// One request to one address, over a connection of its own.
class WebExchange {
 public:
  WebExchange(const Url& url, Headers headers, const WebAnswer& answer)
      : url_(url), headers_(std::move(headers)), answer_(answer) {}

  // Sends one request. Returns where it is redirected to; nothing: this was the last answer.
  Result<std::optional<Url>> run(const std::function<bool()>& stopped) {
    asio::io_context io{1};
    std::optional<Status> outcome;
    asio::co_spawn(io, connect_and_talk(), [&](const std::exception_ptr& thrown, Status status) {
      outcome = std::move(status);
      if (thrown) outcome = Error{ErrorKind::internal, shown() + ": the exchange ended in an exception"};
    });
    while (!outcome && !(stopped && stopped())) io.run_for(kBetweenGlances);
    if (!outcome) return Error{ErrorKind::unavailable, shown() + ": the transfer was called off"};
    FULMAR_TRY(*outcome);
    return next_;
  }

 private:
  // Returns the URL for messages, without its query, in which storage services keep signatures.
  std::string shown() const {
    const std::string whole = absolute_form(url_);
    return whole.substr(0, whole.find('?'));
  }

  Error failed(std::string_view what, const error_code& failure) const {
    if (failure == beast::error::timeout) {
      return {ErrorKind::unavailable, fmt::format("{}: {}: no byte came in time", shown(), what)};
    }
    return {ErrorKind::unavailable, fmt::format("{}: {}: {}", shown(), what, failure.message())};
  }

  asio::awaitable<Status> connect_and_talk() {
    const auto proxy = proxy_for(url_, environment);
    if (!proxy.ok()) co_return proxy.error();
    beast::tcp_stream plain(co_await asio::this_coro::executor);
    const std::string& host = *proxy ? (*proxy)->host : url_.host;
    Status connected = co_await connect(plain, host, *proxy ? (*proxy)->port : url_.port);
    if (!connected.ok()) co_return connected;
    if (!url_.secure) {
      if (*proxy) authorise(headers_, **proxy);
      // Not as an argument: GCC 12 frees temporaries of a condition within co_await twice.
      const std::string target = *proxy ? absolute_form(url_) : url_.target;
      co_return co_await talk(plain, plain, target);
    }
    if (*proxy) {
      Status through = co_await open_tunnel(plain, **proxy);
      if (!through.ok()) co_return through;
    }
    ssl::context context = trusting_context();
    beast::ssl_stream<beast::tcp_stream> secure(std::move(plain), context);
    Status trusted = co_await shake_hands(secure);
    if (!trusted.ok()) co_return trusted;
    co_return co_await talk(secure, beast::get_lowest_layer(secure), url_.target);
  }

  asio::awaitable<Status> connect(beast::tcp_stream& stream, const std::string& host, uint16_t port) const {
    tcp::resolver resolver(stream.get_executor());
    const auto [unknown, found] = co_await resolver.async_resolve(host, std::to_string(port), kAwait);
    if (unknown) co_return failed("cannot find " + host, unknown);
    stream.expires_after(kConnectPatience);
    const auto [refused, endpoint] = co_await stream.async_connect(found, kAwait);
    if (refused) co_return failed("cannot connect to " + host_and_port(host, port), refused);
    co_return Status();
  }

  static void authorise(Headers& headers, const Proxy& proxy) {
    if (!proxy.credentials.empty())
      headers.set("Proxy-Authorization", "Basic " + base64_of(proxy.credentials));
  }

  asio::awaitable<Status> open_tunnel(beast::tcp_stream& stream, const Proxy& proxy) const {
    const std::string target = host_and_port(url_.host, url_.port);
    http::request<http::empty_body> request(http::verb::connect, target, 11);
    request.set(http::field::host, target);
    Headers headers;
    authorise(headers, proxy);
    for (const auto& [name, value] : headers) request.set(name, value);
    stream.expires_after(kPatience);
    const auto [unsent, sent] = co_await http::async_write(stream, request, kAwait);
    if (unsent) co_return failed("the proxy took no request", unsent);
    ReadBuffer buffer(kMostHead);
    http::response_parser<http::empty_body> parser;
    parser.skip(true);  // a tunnel begins after the head
    const auto [silent, read] = co_await http::async_read_header(stream, buffer, parser, kAwait);
    if (silent) co_return failed("the proxy gave no answer", silent);
    if (parser.get().result() == http::status::ok) co_return Status();
    co_return Error{ErrorKind::unavailable,
                    fmt::format("{}: the proxy {} answered {}", shown(),
                                host_and_port(proxy.host, proxy.port), parser.get().result_int())};
  }

  asio::awaitable<Status> shake_hands(beast::ssl_stream<beast::tcp_stream>& stream) const {
    error_code numeric;
    asio::ip::make_address(url_.host, numeric);
    if (numeric) SSL_set_tlsext_host_name(stream.native_handle(), url_.host.c_str());
    stream.set_verify_callback(ssl::host_name_verification(url_.host));
    beast::get_lowest_layer(stream).expires_after(kConnectPatience);
    const auto [failure] = co_await stream.async_handshake(ssl::stream_base::client, kAwait);
    if (!failure) co_return Status();
    const long verdict = SSL_get_verify_result(stream.native_handle());
    if (verdict == X509_V_OK) co_return failed("no TLS connection", failure);
    co_return Error{ErrorKind::unavailable,
                    fmt::format("{}: its certificate is not trusted: {}; SSL_CERT_FILE can name a file of "
                                "certificates that are",
                                shown(), X509_verify_cert_error_string(verdict))};
  }

  template <class Stream>
  asio::awaitable<Status> talk(Stream& stream, beast::tcp_stream& socket, const std::string& target) {
    http::request<http::empty_body> request(http::verb::get, target, 11);
    request.set(http::field::host, host_field(url_));
    request.set(http::field::connection, "close");
    for (const auto& [name, value] : headers_) request.set(name, value);
    socket.expires_after(kPatience);
    const auto [unsent, sent] = co_await http::async_write(stream, request, kAwait);
    if (unsent) co_return failed("cannot send", unsent);
    ReadBuffer buffer(kMostHead);
    for (int heads = 0; heads < kMostHeads; heads++) {
      http::response_parser<http::buffer_body> parser;
      parser.header_limit(kMostHead);
      parser.body_limit(boost::none);
      socket.expires_after(kPatience);
      const auto [silent, read] = co_await http::async_read_header(stream, buffer, parser, kAwait);
      if (silent) co_return failed("no answer", silent);
      const auto status = static_cast<int>(parser.get().result_int());
      if (status >= 100 && status < 200) continue;
      co_return co_await take(stream, socket, buffer, parser, status);
    }
    co_return Error{
        ErrorKind::unavailable,
        fmt::format("{}: {} interim answers and none that ends the request", shown(), kMostHeads)};
  }

  // Takes an answer whose head has arrived: notes a redirect, or passes its body on.
  template <class Stream>
  asio::awaitable<Status> take(Stream& stream, beast::tcp_stream& socket, ReadBuffer& buffer,
                               http::response_parser<http::buffer_body>& parser, int status) {
    Headers headers;
    for (const auto& field : parser.get().base()) {
      headers.add(std::string(field.name_string()), std::string(field.value()));
    }
    if (const std::string* location = headers.find("Location"); location && is_redirect(status)) {
      auto next = follow_location(url_, *location);
      if (!next.ok()) co_return next.error();
      next_ = std::move(*next);
      co_return Status();
    }
    const Error broken_off{ErrorKind::unavailable, shown() + ": the transfer was called off"};
    if (!answer_.head(status, headers)) co_return broken_off;
    std::vector<char> piece(kPiece);
    while (!parser.is_done()) {
      auto& body = parser.get().body();
      body.data = piece.data();
      body.size = piece.size();
      socket.expires_after(kPatience);
      auto [failure, read] = co_await http::async_read_some(stream, buffer, parser, kAwait);
      if (failure == http::error::need_buffer) failure = {};
      const size_t came = piece.size() - body.size;
      if (came > 0 && !answer_.data({piece.data(), came})) co_return broken_off;
      if (failure) co_return failed("the answer was cut off", failure);
    }
    co_return Status();
  }

  const Url url_;
  Headers headers_;
  const WebAnswer& answer_;
  std::optional<Url> next_;
};

}  // namespace

std::string known_certificates() {
  // Debian, Alpine; Fedora, RHEL; openSUSE; others.
  constexpr std::array<const char*, 5> kKnown{
      "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};
  for (const char* file : kKnown) {
    if (std::error_code error; std::filesystem::is_regular_file(file, error)) return file;
  }
  return {};
}

Status web_get(const WebGet& request, const WebAnswer& answer) {
  Url url = request.url;
  for (int redirects = 0; redirects <= kMostRedirects; redirects++) {
    Headers headers = request.headers;
    headers.set("User-Agent", "fulmar");
    if (!request.token.empty() && same_origin(url, request.url)) {
      headers.set("Authorization", "Bearer " + request.token);
    }
    FULMAR_ASSIGN(auto next, WebExchange(url, std::move(headers), answer).run(request.stopped));
    if (!next) return {};
    url = std::move(*next);
  }
  return Error{ErrorKind::unavailable,
               fmt::format("{}: more than {} redirects", absolute_form(request.url), kMostRedirects)};
}

}  // namespace fulmar
