// Starts and stops the IO threads, accepts connections and spreads them evenly.
#include "net/http_server.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/thread.h"
#include "net/http_connection.h"
#include "net/url.h"

namespace fulmar {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kSweepInterval{100};
constexpr std::chrono::milliseconds kAcceptPause{50};
// A line of the log about connections that could not be accepted stands for all of this time.
constexpr std::chrono::seconds kBetweenComplaints{10};
constexpr int kMostThreads = 64;

Result<tcp::endpoint> resolve(asio::io_context& io, const std::string& host, uint16_t port) {
  error_code failure;
  const auto address = asio::ip::make_address(host, failure);
  if (!failure) return tcp::endpoint(address, port);
  const auto found = tcp::resolver(io).resolve(host, std::to_string(port), tcp::resolver::passive, failure);
  if (failure || found.empty()) {
    return Error{ErrorKind::invalid, "cannot listen on host '" + host + "': " + failure.message()};
  }
  return found.begin()->endpoint();
}

// Opens the listener without SO_REUSEPORT: with it a second server would silently share the port instead of
// failing, and connections would be spread by hash instead of evenly.
Status open_listener(tcp::acceptor& acceptor, const tcp::endpoint& endpoint,
                     const HttpServerOptions& options) {
  error_code failure;
  acceptor.open(endpoint.protocol(), failure);
  if (!failure) acceptor.set_option(tcp::acceptor::reuse_address(true), failure);
  if (!failure && endpoint.address().is_v6() && endpoint.address().is_unspecified()) {
    acceptor.set_option(asio::ip::v6_only(false), failure);
  }
  if (!failure) acceptor.bind(endpoint, failure);
  if (!failure) acceptor.listen(options.backlog, failure);
  if (!failure) acceptor.non_blocking(true, failure);
  if (!failure) return {};
  return Error{ErrorKind::io,
               "cannot listen on " + host_and_port(options.host, options.port) + ": " + failure.message()};
}

// One IO thread: its connections and the timer that ends what takes too long.
class IoThread {
 public:
  explicit IoThread(ServerShared& shared)
      : shared_(shared), guard_(asio::make_work_guard(lane.io)), sweep_timer_(lane.io) {
    lane.inbox =
        std::make_shared<DeliveryInbox>([this] { asio::post(lane.io, [this] { take_deliveries(); }); });
  }

  void start() {
    thread_ = Thread("http", [this] { run(); });
  }

  void add(tcp::socket socket, ClientLease place) {
    if (cut_) return;
    std::make_shared<Connection>(std::move(socket), std::move(place), lane, shared_)->start();
  }

  void shorten_idle() {
    for (Connection* connection : copy_connections()) connection->shorten_idle();
  }

  // Cuts every connection and lets the thread run out of work.
  void finish() {
    asio::post(lane.io, [this] {
      cut_ = true;
      for (Connection* connection : copy_connections()) connection->cut();
      sweep_timer_.cancel();
      guard_.reset();
    });
  }

  void join() {
    if (thread_.joinable()) thread_.join();
    lane.inbox->close();
  }

  IoLane lane;

 private:
  // Runs the thread's work; is called again after an exception, which ends one piece of work alone.
  void run() {
    if (!sweeping_ && !cut_) schedule_sweep();
    lane.io.run();
  }

  // Returns a copy, because acting on one connection may remove it.
  std::vector<Connection*> copy_connections() const {
    return {lane.connections.begin(), lane.connections.end()};
  }

  void take_deliveries() {
    lane.inbox->take(deliveries_);
    for (Delivery& delivery : deliveries_) deliver(std::move(delivery));
    deliveries_.clear();
  }

  // Delivers to the connection; if the answer cannot be written, the connection ends.
  void deliver(Delivery delivery) {
    const std::shared_ptr<ExchangeState> exchange = delivery.exchange;
    try {
      if (exchange->sink) exchange->sink->deliver(std::move(delivery));
    } catch (const std::exception& failure) {
      spdlog::error("answer failed reason=\"{}\"", failure.what());
      exchange->lose();
    }
  }

  void schedule_sweep() {
    sweep_timer_.expires_after(kSweepInterval);
    sweep_timer_.async_wait([this](const error_code& failure) {
      sweeping_ = false;
      if (failure || cut_) return;
      schedule_sweep();
      take_deliveries();  // for which the thread could not be woken
      const auto now = Connection::Clock::now();
      for (Connection* connection : copy_connections()) connection->check_deadlines(now);
    });
    sweeping_ = true;
  }

  ServerShared& shared_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  asio::steady_timer sweep_timer_;
  std::vector<Delivery> deliveries_;
  bool cut_ = false;
  bool sweeping_ = false;  // the timer has been set
  Thread thread_;
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, HttpHandler handler) {
    shared_.options = std::move(options);
    shared_.handler = std::move(handler);
    shared_.bodies = std::make_shared<ClientBudget>(shared_.options.max_held_body_bytes);
    shared_.unkeyed_bodies = std::make_shared<ClientBudget>(shared_.options.max_held_unkeyed_body_bytes);
    shared_.places = std::make_shared<ClientBudget>(shared_.options.max_connections);
    for (int i = 0; i < shared_.options.threads; i++) threads_.push_back(std::make_unique<IoThread>(shared_));
    acceptor_.emplace(threads_.front()->lane.io);
  }

  Status start() {
    FULMAR_ASSIGN(const tcp::endpoint endpoint,
                  resolve(threads_.front()->lane.io, shared_.options.host, shared_.options.port));
    FULMAR_TRY(open_listener(*acceptor_, endpoint, shared_.options));
    error_code ignored;
    local_ = acceptor_->local_endpoint(ignored);
    asio::co_spawn(threads_.front()->lane.io, accept_connections(), asio::detached);
    for (auto& thread : threads_) thread->start();
    running_ = true;
    return {};
  }

  void close_after_answers() { shared_.closing = true; }

  void stop_accepting() {
    close_after_answers();
    if (!running_ || shared_.stopping.exchange(true)) return;
    asio::post(threads_.front()->lane.io, [this] { close_listener(); });
    for (auto& thread : threads_) {
      asio::post(thread->lane.io, [&thread = *thread] { thread.shorten_idle(); });
    }
  }

  bool drain(std::chrono::steady_clock::time_point deadline) {
    stop_accepting();
    std::unique_lock lock(shared_.mutex);
    shared_.answered.wait_until(lock, deadline, [this] { return shared_.serving == 0; });
    return shared_.exchanges == 0;
  }

  void stop() {
    if (!running_) return;
    stop_accepting();
    running_ = false;
    for (auto& thread : threads_) thread->finish();
    for (auto& thread : threads_) thread->join();
  }

  const tcp::endpoint& local() const { return local_; }
  size_t connections() const { return shared_.connections; }
  size_t held_body_bytes() const { return shared_.bodies->held() + shared_.unkeyed_bodies->held(); }
  size_t open_exchanges() {
    std::lock_guard lock(shared_.mutex);
    return shared_.exchanges;
  }

 private:
  IoThread& next_thread() { return *threads_[next_++ % threads_.size()]; }

  void hand_over(IoThread& thread, tcp::socket socket) {
    const std::string peer = remote_address(socket);
    error_code failure;
    const std::string local = socket.local_endpoint(failure).address().to_string();
    const std::string client = connection_share(peer, local, shared_.options.proxies);
    ClientLease place(shared_.places, client);
    if (!place.grow(1)) return complain(client + " holds as many as remain for others");  // closes the socket
    asio::post(thread.lane.io, [&thread, socket = std::move(socket), place = std::move(place)]() mutable {
      thread.add(std::move(socket), std::move(place));
    });
  }

  // Accepts connections for ever. Without descriptors or memory, waiting ones are accepted once others close.
  asio::awaitable<void> accept_connections() {
    while (acceptor_->is_open()) {
      try {
        co_await accept_one();
      } catch (const std::exception& failure) {
        complain(failure.what());
      }
    }
  }

  asio::awaitable<void> accept_one() {
    IoThread& thread = next_thread();
    auto [failure, socket] = co_await acceptor_->async_accept(thread.lane.io, kAwait);
    if (!failure) {
      hand_over(thread, std::move(socket));
    } else if (acceptor_->is_open()) {
      complain(failure.message());
      asio::steady_timer pause(acceptor_->get_executor(), kAcceptPause);
      co_await pause.async_wait(kAwait);
    }
  }

  void complain(const std::string& reason) {
    const auto now = Connection::Clock::now();
    if (now < next_complaint_) return;
    next_complaint_ = now + kBetweenComplaints;
    spdlog::warn("cannot accept connections reason=\"{}\" open={}", reason, shared_.connections.load());
  }

  // Closes the listener, but first accepts connections that are already complete; closing would reset them.
  void close_listener() {
    for (int i = 0; i < shared_.options.backlog; i++) {
      IoThread& thread = next_thread();
      error_code failure;
      tcp::socket socket(thread.lane.io);
      acceptor_->accept(socket, failure);
      if (failure) break;
      hand_over(thread, std::move(socket));
    }
    error_code ignored;
    acceptor_->close(ignored);
  }

  ServerShared shared_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::optional<tcp::acceptor> acceptor_;
  tcp::endpoint local_;
  size_t next_ = 0;
  Connection::Clock::time_point next_complaint_{};  // on the first IO thread only
  bool running_ = false;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options, HttpHandler handler) {
  if (options.threads < 1 || options.threads > kMostThreads) {
    return Error{ErrorKind::invalid, "IO threads: " + std::to_string(options.threads) + ", wanted 1 to " +
                                         std::to_string(kMostThreads)};
  }
  try {
    auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
    FULMAR_TRY(impl->start());
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& failure) {
    return Error{ErrorKind::io, std::string("cannot start the HTTP server: ") + failure.what()};
  }
}

uint16_t HttpServer::port() const { return impl_->local().port(); }
std::string HttpServer::address() const {
  return host_and_port(impl_->local().address().to_string(), impl_->local().port());
}
size_t HttpServer::connections() const { return impl_->connections(); }
size_t HttpServer::held_body_bytes() const { return impl_->held_body_bytes(); }
size_t HttpServer::open_exchanges() const { return impl_->open_exchanges(); }
void HttpServer::close_after_answers() { impl_->close_after_answers(); }
void HttpServer::stop_accepting() { impl_->stop_accepting(); }
bool HttpServer::drain(std::chrono::steady_clock::time_point deadline) { return impl_->drain(deadline); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace fulmar
