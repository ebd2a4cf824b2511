// Reads requests with limits and deadlines, writes answers, and notices a client that has gone.
#include "net/http_connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>
#include <span>
#include <utility>

#include "base/log.h"
#include "net/body_pace.h"
#include "net/http_format.h"
#include "net/json_writer.h"
#include "net/url.h"

namespace fulmar {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

constexpr size_t kHeadBuffer = size_t{4} << 10;
constexpr size_t kBodyBuffer = size_t{64} << 10;
// Further requests of a pipelining client stay in the kernel beyond this.
constexpr size_t kMaxReadAhead = size_t{64} << 10;
// A reader this many events behind gets several of them in one write.
constexpr size_t kLaggingPieces = 64;
constexpr size_t kMaxGathered = 64;
// One connection's share before the others of its thread have theirs.
constexpr size_t kBytesAtOnce = size_t{1} << 20;
constexpr std::chrono::seconds kLingerTime{10};
// So long nothing is sent to a client that has closed its side, until it is asked whether it still reads, or,
// where nothing can ask, until it is taken to have gone.
constexpr std::chrono::milliseconds kSilenceBeforeAsking{500}, kSilenceOfTheGone{2'000};

}  // namespace

std::string remote_address(const tcp::socket& socket) {
  error_code failure;
  const tcp::endpoint endpoint = socket.remote_endpoint(failure);
  return failure ? std::string() : host_and_port(endpoint.address().to_string(), endpoint.port());
}

Connection::Connection(tcp::socket socket, ClientLease place, IoLane& lane, ServerShared& shared)
    : place_(std::move(place)),
      socket_(std::move(socket)),
      lane_(lane),
      shared_(shared),
      buffer_(std::max(shared.options.max_head_bytes, kMaxReadAhead)),
      remote_address_(remote_address(socket_)) {
  lane_.connections.insert(this);
  shared_.connections.fetch_add(1);
  std::lock_guard lock(shared_.mutex);
  shared_.serving++;
}

Connection::~Connection() {
  leave();
  lane_.connections.erase(this);
  shared_.connections.fetch_sub(1);
}

void Connection::start() {
  error_code failure;
  socket_.set_option(tcp::no_delay(true), failure);
  socket_.non_blocking(true, failure);
  asio::co_spawn(lane_.io, serve(), asio::detached);
}

asio::awaitable<void> Connection::serve() {
  const auto self = shared_from_this();
  try {
    while (socket_.is_open()) {
      if (!co_await await_request()) break;
      if (!co_await read_request()) break;
      co_await answer_request();
      if (!keep_alive_) break;
    }
    leave();
    co_await close_politely();
  } catch (const std::exception& failure) {
    spdlog::error("connection failed remote={} reason=\"{}\"", remote_address_, failure.what());
  }
  cut();
}

asio::awaitable<bool> Connection::await_request() {
  if (buffer_.size() > 0) co_return true;
  buffer_.shrink_to_fit();
  phase_ = Phase::idle;
  allow(shared_.options.idle_timeout);
  if (shared_.stopping) shorten_idle();
  const auto [failure] = co_await socket_.async_wait(tcp::socket::wait_read, kAwait);
  co_return !failure && !timed_out_;
}

void Connection::shorten_idle() {
  if (phase_ == Phase::idle) deadline_ = std::min(deadline_, Clock::now() + shared_.options.idle_linger);
}

asio::awaitable<bool> Connection::read_request() {
  phase_ = Phase::reading;
  request_ = {};
  RequestReader reader(shared_.options.max_head_bytes);
  const bool head = co_await read_head(reader);
  request_ = std::move(reader.request());
  request_.remote_address = remote_address_;
  request_.client = client_behind(remote_address_, request_.headers, shared_.options.proxies);
  http_1_0_ = reader.http_1_0();
  head_only_ = request_.method == "HEAD";
  keep_alive_ = reader.keep_alive();
  if (!head) {
    co_await refuse(reader);
    co_return false;
  }
  const auto& rule_of = shared_.options.body_rule;
  const BodyRule rule = rule_of ? rule_of(request_) : BodyRule{.most_bytes = shared_.options.max_body_bytes};
  reader.limit_body(rule.most_bytes);
  body_lease_ = ClientLease(rule.keyed ? shared_.bodies : shared_.unkeyed_bodies, request_.client);
  if (!co_await read_body(reader)) {
    co_await refuse(reader);
    co_return false;
  }
  request_.body = std::move(reader.request().body);
  co_return true;
}

// Receives bytes. Returns false when nothing more comes in time.
asio::awaitable<bool> Connection::receive() {
  const size_t room = std::min(buffer_.room(), kBodyBuffer);
  const auto [failure, bytes] = co_await socket_.async_read_some(buffer_.prepare(room), kAwait);
  buffer_.commit(bytes);
  co_return !failure && !timed_out_;
}

// Reads the head. Returns false when the request is refused, the time is over, or the client has gone.
asio::awaitable<bool> Connection::read_head(RequestReader& reader) {
  allow(shared_.options.head_timeout);
  buffer_.reserve(kHeadBuffer);
  auto step = reader.read_head(buffer_);
  while (step == RequestReader::Step::more) {
    // Not in a condition after &&: there GCC 12 awaits whatever the left side is.
    const bool came = co_await receive();
    if (!came) break;
    step = reader.read_head(buffer_);
  }
  co_return step == RequestReader::Step::done;
}

asio::awaitable<bool> Connection::allow_body() {
  allow(shared_.options.body_timeout);
  constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  const auto [failure, bytes] = co_await asio::async_write(socket_, asio::buffer(kContinue), kAwait);
  co_return !failure;
}

asio::awaitable<bool> Connection::read_body(RequestReader& reader) {
  if (!reader.body_is_next()) co_return true;
  if (request_.headers.find("Expect") && !http_1_0_) {
    const bool allowed = co_await allow_body();
    if (!allowed) co_return false;
  }
  buffer_.reserve(std::min(kBodyBuffer, buffer_.max_size()));
  BodyPace pace(shared_.options.body_timeout, Clock::now());
  for (size_t received = 0;;) {
    const auto step = reader.read_body(buffer_);
    const size_t came = reader.body_bytes_received() - std::exchange(received, reader.body_bytes_received());
    if (step != RequestReader::Step::refused && !body_lease_.grow(came)) {
      co_await refuse(503, "the request bodies of this client hold as much as it may have; try again");
      co_return false;
    }
    if (step != RequestReader::Step::more) co_return step == RequestReader::Step::done;
    pace.came(came, Clock::now());
    deadline_ = pace.deadline();
    if (!co_await receive()) co_return false;
  }
}

// Refuses the request, if the client is still there: for what `reader` found, or because it took too long.
asio::awaitable<void> Connection::refuse(const RequestReader& reader) {
  if (answered_early_) co_return;
  if (reader.refused()) {
    co_await refuse(reader.refusal().status, reader.refusal().text);
  } else if (timed_out_ && reader.begun()) {
    timed_out_ = false;
    co_await refuse(408, "the request did not come in time");
  } else {
    error_code ignored;
    socket_.close(ignored);
  }
}

asio::awaitable<void> Connection::refuse(int status, std::string text) {
  keep_alive_ = false;
  answered_early_ = true;
  body_lease_.give_back();
  HttpResponse response = error_response(status, text);
  const BodyFraming framing = body_framing(response.status, false, http_1_0_);
  std::string bytes = format_head(response, framing, false);
  if (framing == BodyFraming::length && !head_only_) bytes += response.body;
  allow(shared_.options.write_timeout);
  co_await asio::async_write(socket_, asio::buffer(bytes), kAwait);
}

asio::awaitable<void> Connection::answer_request() {
  phase_ = Phase::answering;
  deadline_ = Clock::time_point::max();
  answering_ = std::make_shared<ExchangeState>(std::move(request_), std::move(body_lease_), lane_.inbox,
                                               shared_.options.max_stream_backlog_bytes);
  answering_->sink = this;
  {
    std::lock_guard lock(shared_.mutex);
    shared_.exchanges++;
  }
  call_handler(answering_);
  // The answer is written from deliver() and flush(), which cancel this wait when the last byte is out.
  while (answering_) {
    const bool readable = !input_ended_ && buffer_.size() < kMaxReadAhead;
    const auto condition = readable ? tcp::socket::wait_read : tcp::socket::wait_error;
    co_await socket_.async_wait(condition, kAwait);
    if (answering_) take_input();
  }
}

void Connection::call_handler(std::shared_ptr<ExchangeState> exchange) {
  try {
    shared_.handler(std::make_shared<Exchange>(std::move(exchange)));
  } catch (const std::exception& failure) {
    spdlog::error("handler failed remote={} reason=\"{}\"", remote_address_, failure.what());
  }
}

void Connection::take_input() {
  const size_t room = kMaxReadAhead - std::min(kMaxReadAhead, buffer_.size());
  if (room == 0 || input_ended_) return cut();  // the wait was for an error
  error_code failure;
  buffer_.commit(socket_.read_some(buffer_.prepare(std::min(room, kHeadBuffer)), failure));
  if (failure == asio::error::eof) return input_ended();
  if (failure && failure != asio::error::would_block && failure != asio::error::try_again) cut();
}

// Notes the end of input. A client that has sent everything and one that has closed its socket look the same
// until something is written, to which the second one's system answers with a reset.
void Connection::input_ended() {
  input_ended_ = true;
  keep_alive_ = keep_alive_ && buffer_.size() > 0;
  ask_at_ = Clock::now() + most_silence();
}

std::chrono::milliseconds Connection::most_silence() const {
  return can_ask() ? kSilenceBeforeAsking : kSilenceOfTheGone;
}

// Sends an interim response, which is no part of the answer, to learn whether the client is there. HTTP/1.0
// has none; in a stream the events serve the same purpose.
void Connection::ask_whether_there(Clock::time_point now) {
  ask_at_ = now + most_silence();
  if (!out_.empty()) return;  // what waits asks, too
  if (!can_ask()) return cut();
  push({.bytes = "HTTP/1.1 102 Processing\r\n\r\n", .alone = true});
  flush();
}

void Connection::deliver(Delivery delivery) {
  switch (delivery.kind) {
    case Delivery::Kind::respond:
      return queue_response(std::move(*delivery.response));
    case Delivery::Kind::begin_stream:
      return queue_stream_head(std::move(*delivery.response));
    case Delivery::Kind::event:
      return queue_event(std::move(delivery.bytes));
    case Delivery::Kind::end:
      return queue_stream_end();
    case Delivery::Kind::drop:
      return queue_response(error_response(500, "the request was dropped without an answer"));
    case Delivery::Kind::cut:
      return cut();
  }
}

void Connection::queue_response(HttpResponse response) {
  keep_alive_ = keep_alive_ && !shared_.closing;
  const BodyFraming framing = body_framing(response.status, false, http_1_0_);
  push({format_head(response, framing, keep_alive_)});
  if (framing == BodyFraming::length && !head_only_ && !response.body.empty())
    push({std::move(response.body)});
  answer_queued_ = true;
  flush();
}

void Connection::queue_stream_head(HttpResponse head) {
  keep_alive_ = keep_alive_ && !shared_.closing;
  const BodyFraming framing = body_framing(head.status, true, http_1_0_);
  if (framing == BodyFraming::until_close) keep_alive_ = false;
  chunked_ = framing == BodyFraming::chunked;
  bodyless_ = framing == BodyFraming::none || head_only_;
  stream_begun_ = true;
  push({.bytes = format_head(head, framing, keep_alive_), .alone = true});
  flush();
}

void Connection::queue_event(std::string bytes) {
  const size_t counted = bytes.size();
  if (bodyless_) return answering_->sent(counted);
  push({chunked_ ? format_chunk(bytes) : std::move(bytes), counted, true});
  flush();
}

void Connection::queue_stream_end() {
  if (chunked_ && !bodyless_) push({std::string(kLastChunk)});
  answer_queued_ = true;
  flush();
}

void Connection::push(OutgoingBytes piece) {
  if (out_.empty()) write_deadline_ = Clock::now() + shared_.options.write_timeout;
  if (input_ended_) ask_at_ = Clock::now() + most_silence();
  out_.push_back(std::move(piece));
}

void Connection::flush() {
  if (awaiting_writable_) return;
  for (size_t all = 0; !out_.empty();) {
    error_code failure;
    const size_t written = write_some(failure);
    if (failure == asio::error::would_block || failure == asio::error::try_again) return await_writable();
    if (failure) return cut();
    take_off(written);
    all += written;
    if (all >= kBytesAtOnce && !out_.empty()) return await_writable();
  }
  if (answer_queued_) finish_answer();
}

size_t Connection::write_some(error_code& failure) {
  std::array<asio::const_buffer, kMaxGathered> buffers;
  const bool lagging = out_.size() > kLaggingPieces;
  size_t count = 0;
  for (const OutgoingBytes& piece : out_) {
    if (count == buffers.size() || (count > 0 && !lagging && (piece.alone || out_.front().alone))) break;
    buffers[count] = asio::buffer(piece.bytes) + (count == 0 ? out_offset_ : 0);
    count++;
  }
  return socket_.write_some(std::span(buffers.data(), count), failure);
}

void Connection::take_off(size_t written) {
  while (written > 0) {
    const OutgoingBytes& piece = out_.front();
    const size_t remaining = piece.bytes.size() - out_offset_;
    if (written < remaining) {
      out_offset_ += written;
      break;
    }
    written -= remaining;
    answering_->sent(piece.counted);
    out_.pop_front();
    out_offset_ = 0;
  }
  write_deadline_ = out_.empty() ? Clock::time_point::max() : Clock::now() + shared_.options.write_timeout;
}

void Connection::await_writable() {
  awaiting_writable_ = true;
  socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const error_code& failure) {
    self->awaiting_writable_ = false;
    if (!failure && self->answering_) self->flush();
  });
}

void Connection::finish_answer() {
  const auto exchange = std::move(answering_);
  answering_.reset();
  exchange->sink = nullptr;
  answer_queued_ = chunked_ = bodyless_ = false;
  input_ended_ = stream_begun_ = false;
  ask_at_ = Clock::time_point::max();
  out_.clear();
  out_offset_ = 0;
  write_deadline_ = Clock::time_point::max();
  {
    std::lock_guard lock(shared_.mutex);
    shared_.exchanges--;
  }
  shared_.answered.notify_all();
  error_code ignored;
  socket_.cancel(ignored);
}

// Counts the connection as one from which no request will come.
void Connection::leave() {
  if (!std::exchange(serving_, false)) return;
  {
    std::lock_guard lock(shared_.mutex);
    shared_.serving--;
  }
  shared_.answered.notify_all();
}

void Connection::cut() {
  keep_alive_ = false;
  if (answering_) {
    const auto exchange = answering_;
    finish_answer();
    exchange->client_gone();
  }
  error_code ignored;
  socket_.close(ignored);
}

// Reads and discards input for a while before closing: closing a socket with unread input resets it, which
// could take the answer away from a client that is still sending.
asio::awaitable<void> Connection::close_politely() {
  error_code ignored;
  if (!socket_.is_open()) co_return;
  phase_ = Phase::closing;
  timed_out_ = false;
  allow(kLingerTime);
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  buffer_.clear();
  buffer_.reserve(kHeadBuffer);
  while (!timed_out_) {
    const auto [failure, bytes] = co_await socket_.async_read_some(buffer_.prepare(kHeadBuffer), kAwait);
    if (failure) break;
  }
}

void Connection::check_deadlines(Clock::time_point now) {
  if (now >= write_deadline_ || (answering_ && answering_->lost())) return cut();
  if (answering_ && now >= ask_at_) return ask_whether_there(now);
  if (now < deadline_) return;
  deadline_ = Clock::time_point::max();
  timed_out_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

HttpResponse Connection::error_response(int status, std::string_view text) const {
  const HttpRequest& request = answering_ ? answering_->request : request_;
  if (shared_.options.format_error) return shared_.options.format_error(request, status, text);
  HttpResponse response;
  response.status = status;
  response.body = JsonWriter().begin_object().member("error", text).end_object().take();
  return response;
}

}  // namespace fulmar
