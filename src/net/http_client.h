// An asynchronous HTTP/1.1 client over plain TCP: one thread, any number of requests at once.
// For relaying to workers, for tools and for tests; the library underneath appears only in http_client.cpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/http_message.h"

namespace fulmar {

struct ClientRequest {
  std::string method = "GET";
  std::string host;  // name or numeric address, IPv6 without brackets
  uint16_t port = 80;
  std::string target = "/";  // path and query, already escaped
  Headers headers;           // Host, Content-Length, Transfer-Encoding and Connection belong to the client
  std::string body;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds total_timeout{0};  // from send() to the last byte; 0 means none
  bool reuse_connection = true;                // may take, and leave behind, a kept-alive connection
};

// How a request ended.
struct ClientOutcome {
  Status status;
  bool sent = false;       // at least one byte of it may have reached the other side
  bool timed_out = false;  // ended by one of its time-outs

  bool ok() const { return status.ok(); }
  const Error& error() const { return status.error(); }
  operator Status() const { return status; }
};

// All run on the client's thread and must not block. on_end is called exactly once and last, unless cancel()
// came first: then nothing more is called. Empty functions are skipped.
struct ClientCallbacks {
  std::function<void(int status, const Headers& headers)> on_head;
  // Body bytes as they arrive. A chunk of up to 64 KiB comes whole and alone, so that events stay one to one.
  std::function<void(std::string_view bytes)> on_data;
  std::function<void(const ClientOutcome& outcome)> on_end;
};

class CallState;

// A handle to one running request. Dropping it does not cancel.
class ClientCall {
 public:
  explicit ClientCall(std::shared_ptr<CallState> state) : state_(std::move(state)) {}
  // Closes the connection; from any thread, at any time. A callback that is running may still finish.
  void cancel();
  // Stops and resumes reading, so that a slow consumer slows the sender. From any thread.
  void pause();
  void resume();

 private:
  std::shared_ptr<CallState> state_;
};

class ClientCore;

class HttpClient {
 public:
  HttpClient();
  ~HttpClient();  // cancels what still runs; not to be called on the client's own thread
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Sends a request. Every failure arrives in on_end as an Error that names host and port: unavailable
  // (cannot connect, timed out), corrupt (not HTTP) or io.
  std::shared_ptr<ClientCall> send(ClientRequest request, ClientCallbacks callbacks);

 private:
  const std::shared_ptr<ClientCore> core_;
};

// Sends one request and waits for its answer, for tools and tests. `url`: http://host[:port]/path?query.
// Refuses bodies over 256 MiB.
Result<HttpResponse> fetch(std::string_view method, std::string_view url, const Headers& headers = {},
                           std::string body = {},
                           std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace fulmar
