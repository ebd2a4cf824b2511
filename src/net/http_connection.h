// One client connection: a coroutine that reads requests, and a writer that sends answers in parts.
// Everything here runs on the connection's own IO thread. Only http_connection.cpp and http_server.cpp
// include this.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "net/exchange_state.h"
#include "net/http_server.h"
#include "net/read_buffer.h"
#include "net/request_reader.h"

namespace fulmar {

// The state shared by all connections of a server; outlives them.
struct ServerShared {
  HttpServerOptions options;
  HttpHandler handler;
  // The budgets for requests with a key, or that need none, and for all others.
  std::shared_ptr<ClientBudget> bodies;
  std::shared_ptr<ClientBudget> unkeyed_bodies;
  std::shared_ptr<ClientBudget> places;  // of connections
  std::atomic<bool> closing{false};      // connections close after their next answer
  std::atomic<bool> stopping{false};     // and none are accepted
  std::atomic<size_t> connections{0};

  std::mutex mutex;
  std::condition_variable answered;
  // Under `mutex`.
  size_t exchanges = 0;
  size_t serving = 0;  // connections from which a request may still come, or is being answered
};

class Connection;

// The state shared by all connections of one IO thread; outlives them.
struct IoLane {
  boost::asio::io_context io{1};
  std::shared_ptr<DeliveryInbox> inbox;
  std::unordered_set<Connection*> connections;  // on this lane's thread only
};

// Returns the address and port of the other side; empty once it has gone.
std::string remote_address(const boost::asio::ip::tcp::socket& socket);

class Connection final : public AnswerSink, public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // Takes `place`, which it holds of ServerShared::places.
  Connection(boost::asio::ip::tcp::socket socket, ClientLease place, IoLane& lane, ServerShared& shared);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  void deliver(Delivery delivery) override;
  // Ends whatever has taken longer than the options allow.
  void check_deadlines(Clock::time_point now);
  // Leaves a connection that is between two requests no more time than the idle linger.
  void shorten_idle();
  // Closes the connection at once; for an incomplete answer the client counts as gone.
  void cut();

 private:
  enum class Phase { idle, reading, answering, closing };

  // Bytes waiting to be sent.
  struct OutgoingBytes {
    std::string bytes;
    size_t counted = 0;  // bytes of the stream's backlog that it stands for
    bool alone = false;  // an event: not joined with others while the reader keeps up
  };

  boost::asio::awaitable<void> serve();
  boost::asio::awaitable<bool> await_request();
  boost::asio::awaitable<bool> read_request();
  boost::asio::awaitable<bool> receive();
  boost::asio::awaitable<bool> read_head(RequestReader& reader);
  boost::asio::awaitable<bool> read_body(RequestReader& reader);
  boost::asio::awaitable<bool> allow_body();
  boost::asio::awaitable<void> refuse(const RequestReader& reader);
  boost::asio::awaitable<void> refuse(int status, std::string text);
  boost::asio::awaitable<void> answer_request();
  boost::asio::awaitable<void> close_politely();

  void call_handler(std::shared_ptr<ExchangeState> exchange);
  void take_input();
  void input_ended();
  bool can_ask() const { return !stream_begun_ && !http_1_0_; }
  std::chrono::milliseconds most_silence() const;
  void ask_whether_there(Clock::time_point now);
  void queue_response(HttpResponse response);
  void queue_stream_head(HttpResponse head);
  void queue_event(std::string bytes);
  void queue_stream_end();
  void push(OutgoingBytes piece);
  void flush();
  size_t write_some(boost::system::error_code& failure);
  void take_off(size_t written);
  void await_writable();
  void finish_answer();
  void leave();
  HttpResponse error_response(int status, std::string_view text) const;
  void allow(std::chrono::milliseconds time) { deadline_ = Clock::now() + time; }

  const ClientLease place_;
  boost::asio::ip::tcp::socket socket_;
  IoLane& lane_;
  ServerShared& shared_;
  ReadBuffer buffer_;  // received, not yet understood
  std::string remote_address_;
  Phase phase_ = Phase::idle;
  Clock::time_point deadline_ = Clock::time_point::max();        // of reading phases
  Clock::time_point write_deadline_ = Clock::time_point::max();  // of the unsent bytes
  Clock::time_point ask_at_ = Clock::time_point::max();  // whether a client that has closed its side is there
  bool timed_out_ = false;
  bool serving_ = true;

  HttpRequest request_;
  ClientLease body_lease_;
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
  bool answered_early_ = false;  // by refuse(), after which the connection closes

  std::shared_ptr<ExchangeState> answering_;
  bool chunked_ = false;        // the stream's framing
  bool bodyless_ = false;       // the stream's events are not to be sent
  bool answer_queued_ = false;  // the last byte of the answer is in out_
  bool input_ended_ = false;    // the client has closed its side; it may still read
  bool stream_begun_ = false;   // the head of a stream is in out_ or sent
  bool awaiting_writable_ = false;
  std::deque<OutgoingBytes> out_;
  size_t out_offset_ = 0;  // bytes of out_.front() that are sent
};

}  // namespace fulmar
