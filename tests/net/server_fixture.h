// A server on a free port whose handler the test chooses, and patience for things that happen on other
// threads.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/http_server.h"
#include "net/raw_socket.h"

namespace fulmar::test {

inline std::unique_ptr<HttpServer> serve(HttpHandler handler, HttpServerOptions options = {}) {
  auto server = HttpServer::start(std::move(options), std::move(handler));
  EXPECT_TRUE(server.ok()) << (server.ok() ? "" : server.error().text);
  return server.ok() ? std::move(server).value() : nullptr;
}

// True as soon as `condition` holds; false when it does not within kPatience.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Keeps exchanges for the test's own thread to answer.
class Shelf {
 public:
  HttpHandler handler() {
    return [this](std::shared_ptr<Exchange> exchange) {
      {
        std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(exchange));
      }
      arrived_.notify_all();
    };
  }

  // The next exchange, or null when none comes.
  std::shared_ptr<Exchange> take() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kPatience, [this] { return !waiting_.empty(); })) return nullptr;
    auto exchange = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return exchange;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::shared_ptr<Exchange>> waiting_;
};

// Answers with method, path and body.
inline void echo(const std::shared_ptr<Exchange>& exchange) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body =
      exchange->request().method + " " + exchange->request().path + "\n" + exchange->request().body;
  exchange->respond(std::move(response));
}

inline HttpResponse stream_head() {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  return head;
}

}  // namespace fulmar::test
