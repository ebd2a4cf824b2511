// The client's thread, its pool of kept-alive connections, and one coroutine per request.
#include "net/http_client.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "net/http_format.h"
#include "net/read_buffer.h"
#include "net/url.h"

namespace fulmar {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr uint32_t kMaxHeadBytes = 256u << 10;
constexpr int kMostHeads = 16;  // of one answer: interim ones (1xx) and its own
constexpr size_t kReadBuffer = size_t{64} << 10;
// A chunk beyond this is passed on in pieces.
constexpr size_t kWholeChunkBytes = size_t{64} << 10;
// Well below the time after which servers close idle connections, so that a reused one is hardly ever a dying
// one.
constexpr std::chrono::seconds kReuseWithin{15};
constexpr size_t kMaxIdlePerHost = 64;
constexpr size_t kMaxFetchedBytes = size_t{256} << 20;

// A body type that hands bytes on as the parser finds them.
struct PassedOnBody {
  struct value_type {
    std::function<void(std::string_view)> take;
  };
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, error_code& failure) { failure = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, error_code& failure) {
      failure = {};
      size_t total = 0;
      for (const asio::const_buffer part : boost::beast::buffers_range_ref(buffers)) {
        body_.take({static_cast<const char*>(part.data()), part.size()});
        total += part.size();
      }
      return total;
    }
    void finish(error_code& failure) { failure = {}; }

   private:
    value_type& body_;
  };
};

using ResponseParser = http::response_parser<PassedOnBody>;

bool holds_space_or_control(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) return true;
  }
  return text.empty();
}

// Kept-alive connections by "host:port".
class ConnectionPool {
 public:
  std::optional<tcp::socket> take(const std::string& name) {
    auto& idle = idle_[name];
    while (!idle.empty()) {
      Idle candidate = std::move(idle.back());
      idle.pop_back();
      if (Clock::now() - candidate.since < kReuseWithin && is_quiet(candidate.socket)) {
        return std::move(candidate.socket);
      }
    }
    return std::nullopt;
  }

  void give_back(const std::string& name, tcp::socket socket) {
    auto& idle = idle_[name];
    if (idle.size() < kMaxIdlePerHost) idle.push_back({std::move(socket), Clock::now()});
  }

  void clear() { idle_.clear(); }

 private:
  struct Idle {
    tcp::socket socket;
    Clock::time_point since;
  };

  // Returns whether the socket is open and has neither a byte nor an end to read.
  static bool is_quiet(tcp::socket& socket) {
    char byte;
    error_code failure;
    socket.non_blocking(true, failure);
    socket.receive(asio::buffer(&byte, 1), tcp::socket::message_peek, failure);
    return failure == asio::error::would_block || failure == asio::error::try_again;
  }

  std::unordered_map<std::string, std::vector<Idle>> idle_;
};

}  // namespace

class ClientCore {
 public:
  ClientCore() : guard_(asio::make_work_guard(io)) {}

  void start() {
    // Anew when a piece of work has thrown, which ends that piece alone.
    thread_ = Thread("client", [this] { io.run(); });
  }
  void shut_down();

  asio::io_context io{1};
  ConnectionPool pool;                     // on the client's thread only
  std::unordered_set<CallState*> running;  // on the client's thread only

 private:
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  Thread thread_;
};

class CallState : public std::enable_shared_from_this<CallState> {
 public:
  CallState(const std::shared_ptr<ClientCore>& client, ClientRequest request, ClientCallbacks callbacks)
      : client_(client),
        io_(client->io),
        request_(std::move(request)),
        callbacks_(std::move(callbacks)),
        name_(host_and_port(request_.host, request_.port)) {}

  void start() {
    asio::co_spawn(
        io_, [self = shared_from_this()] { return self->run(); }, asio::detached);
  }
  void cancel() {
    cancelled_ = true;
    on_thread([](CallState& call) { call.close(); });
  }
  // Sets a flag here, not in posted work: calls posted by different threads may overtake each other, but the
  // last of pause() and resume() must win.
  void pause() { paused_ = true; }
  void resume() {
    paused_ = false;
    on_thread([](CallState& call) {
      if (call.resumed_) call.resumed_->cancel();
    });
  }
  void cancel_here() {
    cancelled_ = true;
    close();
  }

 private:
  template <class Action>
  void on_thread(Action action) {
    const auto client = client_.lock();
    if (client) asio::post(client->io, [self = shared_from_this(), action] { action(*self); });
  }

  asio::awaitable<void> run();
  asio::awaitable<Status> exchange();
  asio::awaitable<Status> connect();
  asio::awaitable<Status> send_request();
  asio::awaitable<Status> read_response();
  asio::awaitable<Status> read_body(ResponseParser& parser);
  void pass_head(ResponseParser& parser);
  void pass_data(std::string_view bytes);
  void pass_chunk(uint64_t remaining, std::string_view bytes);
  void watch_deadline();
  void close();
  Error failed(ErrorKind kind, std::string_view what, const error_code& failure) const;

  const std::weak_ptr<ClientCore> client_;
  asio::io_context& io_;
  ClientRequest request_;
  ClientCallbacks callbacks_;
  const std::string name_;

  std::atomic<bool> cancelled_{false};
  bool timed_out_ = false;
  bool sent_ = false;
  std::atomic<bool> paused_{false};
  bool reusable_ = false;
  std::string chunk_;
  ReadBuffer buffer_{kMaxHeadBytes};
  // These live from the start to the end of run(), and so never beyond the client's io_context.
  std::optional<tcp::socket> socket_;
  std::optional<asio::steady_timer> deadline_;
  std::optional<asio::steady_timer> resumed_;
  std::optional<tcp::resolver> resolver_;
};

asio::awaitable<void> CallState::run() {
  const auto self = shared_from_this();
  const auto client = client_.lock();
  if (!client || cancelled_) co_return;
  client->running.insert(this);
  deadline_.emplace(io_);
  resumed_.emplace(io_, Clock::time_point::max());
  Status outcome;
  try {
    outcome = co_await exchange();
  } catch (const std::exception& failure) {
    outcome = Error{ErrorKind::internal, name_ + ": " + failure.what()};
  }
  if (outcome.ok() && reusable_ && request_.reuse_connection)
    client->pool.give_back(name_, std::move(*socket_));
  deadline_->cancel();
  deadline_.reset();
  resumed_.reset();
  resolver_.reset();
  socket_.reset();
  client->running.erase(this);
  const ClientCallbacks callbacks = std::move(callbacks_);
  callbacks_ = {};
  if (!cancelled_ && callbacks.on_end) {
    callbacks.on_end({.status = std::move(outcome), .sent = sent_, .timed_out = timed_out_});
  }
}

asio::awaitable<Status> CallState::exchange() {
  if (holds_space_or_control(request_.target) || holds_space_or_control(request_.method)) {
    co_return Error{ErrorKind::invalid,
                    name_ + ": method or target is empty or holds a space or control byte"};
  }
  Status status = co_await connect();
  if (status.ok()) status = co_await send_request();
  if (status.ok()) status = co_await read_response();
  co_return status;
}

asio::awaitable<Status> CallState::connect() {
  const auto begin = Clock::now();
  const bool bounded = request_.total_timeout.count() > 0;
  const auto client = client_.lock();
  if (client && request_.reuse_connection) {
    if (auto pooled = client->pool.take(name_)) socket_.emplace(std::move(*pooled));
  }
  if (!socket_) {
    deadline_->expires_at(begin + (bounded ? std::min(request_.connect_timeout, request_.total_timeout)
                                           : request_.connect_timeout));
    watch_deadline();
    socket_.emplace(io_);
    error_code failure;
    const auto address = asio::ip::make_address(request_.host, failure);
    if (!failure) {
      const auto [refused] = co_await socket_->async_connect(tcp::endpoint(address, request_.port), kAwait);
      failure = refused;
    } else {
      resolver_.emplace(io_);
      const auto [unknown, found] =
          co_await resolver_->async_resolve(request_.host, std::to_string(request_.port), kAwait);
      failure = unknown;
      if (!failure) {
        const auto [refused, endpoint] = co_await asio::async_connect(*socket_, found, kAwait);
        failure = refused;
      }
    }
    if (failure || timed_out_ || cancelled_)
      co_return failed(ErrorKind::unavailable, "cannot connect", failure);
    socket_->set_option(tcp::no_delay(true), failure);
  }
  deadline_->expires_at(bounded ? begin + request_.total_timeout : Clock::time_point::max());
  if (bounded) watch_deadline();
  co_return Status();
}

asio::awaitable<Status> CallState::send_request() {
  const std::string head = format_request_head(request_.method, request_.target, name_, request_.headers,
                                               request_.body.size(), request_.reuse_connection);
  const std::array<asio::const_buffer, 2> parts{asio::buffer(head), asio::buffer(request_.body)};
  const auto [failure, bytes] = co_await asio::async_write(*socket_, parts, kAwait);
  sent_ = bytes > 0;
  // A server may answer and close before it has read everything; its answer is then still there to read.
  if (failure && failure != asio::error::broken_pipe && failure != asio::error::connection_reset) {
    co_return failed(ErrorKind::io, "cannot send the request", failure);
  }
  request_.body = {};
  co_return Status();
}

asio::awaitable<Status> CallState::read_response() {
  buffer_.reserve(kReadBuffer);
  for (int heads = 0; heads < kMostHeads; heads++) {
    ResponseParser parser;
    parser.header_limit(kMaxHeadBytes);
    parser.body_limit(boost::none);
    parser.skip(request_.method == "HEAD");
    const auto [failure, bytes] = co_await http::async_read_header(*socket_, buffer_, parser, kAwait);
    if (failure) co_return failed(ErrorKind::io, "no answer", failure);
    const unsigned status = parser.get().result_int();
    const bool interim = status >= 100 && status < 200 && status != 101;
    if (interim) continue;
    co_return co_await read_body(parser);
  }
  co_return Error{ErrorKind::corrupt, name_ + ": " + std::to_string(kMostHeads) +
                                          " interim answers and none that ends the request"};
}

asio::awaitable<Status> CallState::read_body(ResponseParser& parser) {
  parser.get().body().take = [this](std::string_view bytes) { pass_data(bytes); };
  auto on_chunk = [this](uint64_t remaining, boost::beast::string_view bytes, error_code& failure) {
    failure = {};
    pass_chunk(remaining, {bytes.data(), bytes.size()});
    return bytes.size();
  };
  parser.on_chunk_body(on_chunk);
  parser.eager(true);
  pass_head(parser);
  while (!parser.is_done()) {
    while (paused_ && !cancelled_ && !timed_out_) co_await resumed_->async_wait(kAwait);
    const auto [failure, bytes] = co_await http::async_read_some(*socket_, buffer_, parser, kAwait);
    if (failure) co_return failed(ErrorKind::io, "the answer was cut off", failure);
  }
  reusable_ = parser.get().keep_alive() && !parser.get().need_eof() && buffer_.size() == 0;
  co_return Status();
}

void CallState::pass_head(ResponseParser& parser) {
  if (cancelled_ || !callbacks_.on_head) return;
  Headers headers;
  for (const auto& field : parser.get().base()) {
    headers.add(std::string(field.name_string()), std::string(field.value()));
  }
  callbacks_.on_head(static_cast<int>(parser.get().result_int()), headers);
}

void CallState::pass_data(std::string_view bytes) {
  if (!cancelled_ && !bytes.empty() && callbacks_.on_data) callbacks_.on_data(bytes);
}

// Passes on or keeps a part of a chunk, of which `remaining` bytes, `bytes` included, are to come.
void CallState::pass_chunk(uint64_t remaining, std::string_view bytes) {
  const bool complete = remaining == bytes.size();
  if (complete && chunk_.empty()) return pass_data(bytes);
  chunk_.append(bytes);
  if (complete || chunk_.size() > kWholeChunkBytes) {
    pass_data(chunk_);
    chunk_.clear();
  }
}

void CallState::watch_deadline() {
  deadline_->async_wait([self = shared_from_this()](const error_code& failure) {
    // A wait that ended just before the timer was set anew reports success for a deadline that no longer
    // counts.
    if (failure || !self->deadline_ || self->deadline_->expiry() > Clock::now()) return;
    self->timed_out_ = true;
    self->close();
  });
}

void CallState::close() {
  error_code ignored;
  if (socket_) socket_->close(ignored);
  if (resolver_) resolver_->cancel();
  if (resumed_) resumed_->cancel();
}

Error CallState::failed(ErrorKind kind, std::string_view what, const error_code& failure) const {
  if (timed_out_) return {ErrorKind::unavailable, name_ + ": " + std::string(what) + ": the time is over"};
  const bool not_http = failure.category() == http::make_error_code(http::error::bad_method).category() &&
                        failure != http::error::end_of_stream && failure != http::error::partial_message;
  return {not_http ? ErrorKind::corrupt : kind, name_ + ": " + std::string(what) + ": " + failure.message()};
}

void ClientCore::shut_down() {
  asio::post(io, [this] {
    const std::vector<CallState*> calls(running.begin(), running.end());
    for (CallState* call : calls) call->cancel_here();
    pool.clear();
    guard_.reset();
  });
  if (thread_.joinable()) thread_.join();
}

void ClientCall::cancel() { state_->cancel(); }
void ClientCall::pause() { state_->pause(); }
void ClientCall::resume() { state_->resume(); }

HttpClient::HttpClient() : core_(std::make_shared<ClientCore>()) { core_->start(); }
HttpClient::~HttpClient() { core_->shut_down(); }

std::shared_ptr<ClientCall> HttpClient::send(ClientRequest request, ClientCallbacks callbacks) {
  auto state = std::make_shared<CallState>(core_, std::move(request), std::move(callbacks));
  auto call = std::make_shared<ClientCall>(state);
  state->start();
  return call;
}

Result<HttpResponse> fetch(std::string_view method, std::string_view url, const Headers& headers,
                           std::string body, std::chrono::milliseconds timeout) {
  FULMAR_ASSIGN(const Url parts, parse_url(url));
  ClientRequest request;
  request.method = method;
  request.host = parts.host;
  request.port = parts.port;
  request.target = parts.target;
  request.headers = headers;
  request.body = std::move(body);
  request.connect_timeout = request.total_timeout = timeout;
  request.reuse_connection = false;

  HttpResponse response;
  Mailbox<Status> finished;
  HttpClient client;
  client.send(
      std::move(request),
      {.on_head =
           [&](int status, const Headers& received) {
             response.status = status;
             response.headers = received;
             response.content_type = received.get("Content-Type");
           },
       .on_data =
           [&](std::string_view bytes) {
             if (response.body.size() + bytes.size() <= kMaxFetchedBytes) {
               response.body.append(bytes);
             } else {
               finished.put(Error{ErrorKind::resource, "the answer of '" + std::string(url) + "' exceeds " +
                                                           std::to_string(kMaxFetchedBytes) + " bytes"});
             }
           },
       .on_end = [&](const ClientOutcome& outcome) { finished.put(outcome.status); }});
  // The time-outs of the request see to it that an outcome comes.
  std::vector<Status> outcome;
  while (outcome.empty()) outcome = finished.wait_all(std::chrono::hours(1));
  FULMAR_TRY(outcome.front());
  return response;
}

}  // namespace fulmar
