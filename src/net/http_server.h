// The HTTP/1.1 listener: reads whole requests, passes them to one handler, writes answers and event streams.
// Knows no route, no JSON and no model; the library is used only in http_server.cpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/client_address.h"
#include "net/http_message.h"

namespace fulmar {

class ExchangeState;

// One request and its answer. Any thread may call any method. Call either respond() once, or
// begin_stream(), any number of write(), and end(). Further calls are ignored, as are all calls
// after the client has gone. Dropping the last reference without an answer answers 500; dropping
// an unended stream cuts the connection, so that the client sees a broken answer and not a short
// one.
class Exchange {
 public:
  explicit Exchange(std::shared_ptr<ExchangeState> state);  // made by the server only
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const;
  // Returns the address of the client, seen through trusted proxies (net/client_address.h); empty if there is
  // none.
  const std::string& client() const;
  // Moves the body out, for handlers that must not keep it twice; request().body is then empty, and its bytes
  // no longer count among the bodies that the server holds. Not to be called while another thread reads
  // request().
  std::string take_body();

  // Sends the whole answer. Adds Content-Length; a HEAD request gets the head only.
  void respond(HttpResponse response);

  // Sends the head of a chunked answer (its body is ignored). For HTTP/1.0 clients closing the connection
  // ends the answer instead of chunks.
  void begin_stream(HttpResponse head);
  // Sends one event. Each call becomes its own chunk and, unless the reader lags by many events, its own
  // socket write. Ignores an empty one. Closes the connection when the stream's unsent bytes exceed the
  // server's bound.
  void write(std::string event_bytes);
  // Ends the stream; what was written before is still delivered.
  void end();

  // Returns the bytes written here that the operating system has not taken yet.
  size_t backlog_bytes() const;
  // Runs `callback` at most once, as soon as the backlog is at most `bytes`: at once on the calling thread,
  // or later on an IO thread, where it must not block. Never if the client goes first. A second call replaces
  // the first callback.
  void on_backlog_below(size_t bytes, std::function<void()> callback);
  // Returns whether the client has gone, or the server has cut the connection.
  bool disconnected() const;
  // Runs `callback` at most once, when the client goes or is cut off before the answer is complete (before
  // respond() or end()). It runs on an IO thread and must not block; if the client has gone already, it runs
  // at once on the calling thread. A second call replaces the first callback.
  void on_disconnect(std::function<void()> callback);

 private:
  const std::shared_ptr<ExchangeState> state_;
};

using HttpHandler = std::function<void(std::shared_ptr<Exchange>)>;

// Makes the answer to a request that never reaches the handler (400, 408, 413, 431, 501, 503) or that the
// handler dropped (500). `request` has the parsed part: method and path may be empty. Runs on an IO
// thread.
using HttpErrorFormatter =
    std::function<HttpResponse(const HttpRequest& request, int status, std::string_view text)>;

struct BodyRule {
  size_t most_bytes = 0;
  bool keyed = true;  // a key has been shown, or none is asked for
};

struct HttpServerOptions {
  std::string host =
      "127.0.0.1";     // a numeric IPv4 or IPv6 address, or a name; "0.0.0.0" and "::" mean every one
  uint16_t port = 0;   // 0: any free one, see HttpServer::port()
  int threads = 2;     // IO threads, 1..64; each connection belongs to one of them
  int backlog = 4096;  // connections that the operating system holds before they are accepted
  // Further ones are closed at once, as are those of one client beyond what remains free for others
  // (net/client_budget.h, connection_share()).
  size_t max_connections = 16384;
  size_t max_head_bytes = size_t{64} << 10;  // request line and headers; beyond: 431
  size_t max_body_bytes = size_t{64} << 20;  // beyond: 413
  // The most bytes of bodies that have arrived, wholly or in part, and were not taken by a handler: in total,
  // and those of requests without a key. One client may hold as much as remains free for others
  // (net/client_budget.h). Beyond: 503.
  size_t max_held_body_bytes = size_t{512} << 20;
  size_t max_held_unkeyed_body_bytes = size_t{64} << 20;
  // Decides for one request by its head; empty: max_body_bytes, keyed, for all. Runs on an IO
  // thread.
  std::function<BodyRule(const HttpRequest& head)> body_rule;
  size_t max_stream_backlog_bytes = size_t{4}
                                    << 20;  // unsent bytes of one stream; beyond: the client is cut off
  std::chrono::milliseconds idle_timeout{75'000};  // a kept-alive connection between two requests
  std::chrono::milliseconds idle_linger{1'000};    // the same, once the server accepts no connections
  std::chrono::milliseconds head_timeout{15'000};  // from a request's first byte to the end of its head
  // Each such span must bring 16 KiB a second of the body, or its rest, at most 60 s; else: 408.
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds write_timeout{120'000};  // without a byte taken by the client while bytes wait
  ProxyRules proxies;                                // who is believed about a client's address
  HttpErrorFormatter format_error;                   // empty: {"error":"<text>"}
};

class HttpServer {
 public:
  // Binds, listens and starts the IO threads. Errors name host and port: io for a taken port, invalid for a
  // bad host.
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, HttpHandler handler);
  ~HttpServer();  // stop()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  std::string address() const;     // "127.0.0.1:8000", "[::1]:8000"
  size_t connections() const;      // open now
  size_t held_body_bytes() const;  // what counts against the two bounds of bodies now
  size_t open_exchanges() const;   // requests handed out whose answer is not yet with the operating system

  // Makes each connection close after its next answer, which says so (`Connection: close`). Connections are
  // still accepted. Idempotent.
  void close_after_answers();
  // Calls close_after_answers() and closes the listening socket. Running requests go on. Kept-alive
  // connections without a request stay for the idle linger: a request that a client sends before it can know
  // is answered. Idempotent.
  void stop_accepting();
  // Calls stop_accepting(), then waits until every exchange is answered and every connection is done, at most
  // until `deadline`. Returns whether no exchange is left.
  bool drain(std::chrono::steady_clock::time_point deadline);
  // Cuts every connection (on_disconnect runs for incomplete answers) and joins the IO threads. Idempotent.
  // Not to be called on an IO thread.
  void stop();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fulmar
