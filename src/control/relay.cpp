// One relayed exchange: a small state machine whose callbacks come from two threads.
#include "control/relay.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.h"
#include "control/control_answers.h"
#include "net/client_address.h"
#include "net/worker_proof.h"

namespace fulmar {
namespace {

constexpr std::chrono::seconds kConnectTimeout{5};
// Answers of a known length up to this one are passed on whole, longer ones as they come.
constexpr size_t kMostCollected = size_t{1} << 20;
// While the client has this much to take, no more is read from the worker, until it has this little.
constexpr size_t kPauseAbove = size_t{1} << 20;
constexpr size_t kResumeBelow = size_t{256} << 10;

constexpr std::string_view kHopByHop[] = {"connection",
                                          "keep-alive",
                                          "proxy-authenticate",
                                          "proxy-authorization",
                                          "te",
                                          "trailers",
                                          "trailer",
                                          "transfer-encoding",
                                          "upgrade",
                                          "host",
                                          "content-length"};

std::optional<size_t> content_length(const Headers& headers) {
  const std::string_view text = headers.get("Content-Length");
  size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return length;
}

class Relay : public std::enable_shared_from_this<Relay> {
 public:
  Relay(HttpClient& client, std::shared_ptr<Exchange> exchange, RelayRequest request, NextWorker next,
        HttpResponse unreachable)
      : client_(client),
        exchange_(std::move(exchange)),
        request_(std::move(request)),
        next_(std::move(next)),
        unreachable_(std::move(unreachable)) {}
  ~Relay() { release_worker(); }

  void begin() {
    exchange_->on_disconnect([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->cancel();
    });
    attempt(next_());
  }

 private:
  enum class Phase { waiting, collecting, streaming, done };

  void attempt(WorkerPtr worker) {
    std::unique_lock lock(mutex_);
    if (phase_ == Phase::done) return;
    release_worker();
    if (!worker) {
      phase_ = Phase::done;
      lock.unlock();
      const bool refused = held_back_ && request_.refusal_stands && !attempt_failed_;
      return exchange_->respond(refused ? std::move(*held_back_) : std::move(unreachable_));
    }
    worker_ = std::move(worker);
    worker_->in_flight->fetch_add(1, std::memory_order_relaxed);
    const int number = ++attempt_;
    ClientRequest asked = request_to_worker(*worker_, *exchange_, request_);
    asked.body = exchange_->request().body;
    lock.unlock();  // the callbacks below may already run before send() returns
    auto call = client_.send(std::move(asked), callbacks(number));
    lock.lock();
    if (phase_ == Phase::done) {
      call->cancel();
    } else if (number == attempt_) {
      call_ = std::move(call);
    }
  }

  ClientCallbacks callbacks(int number) {
    auto self = shared_from_this();
    return {.on_head = [self, number](int status,
                                      const Headers& headers) { self->take_head(number, status, headers); },
            .on_data = [self, number](std::string_view bytes) { self->take_data(number, bytes); },
            .on_end = [self, number](const ClientOutcome& outcome) { self->take_end(number, outcome); }};
  }

  void take_head(int number, int status, const Headers& headers) {
    std::unique_lock lock(mutex_);
    if (number != attempt_ || phase_ != Phase::waiting) return;
    head_.status = status;
    head_.content_type.clear();  // the worker's own is among the headers
    head_.headers = end_to_end_headers(headers);
    head_.headers.remove("Date");
    const auto length = content_length(headers);
    const bool bodiless = status == 204 || status == 304 || exchange_->request().method == "HEAD";
    const bool refused = status == request_.refusal;
    if (!refused) {
      exchange_->take_body();  // no other worker will be asked
      if (request_.answered) request_.answered(*worker_, status, headers);
    }
    if (refused || bodiless || (length && *length <= kMostCollected)) {
      phase_ = Phase::collecting;
      return;
    }
    phase_ = Phase::streaming;
    lock.unlock();
    exchange_->begin_stream(std::move(head_));
  }

  void take_data(int number, std::string_view bytes) {
    std::unique_lock lock(mutex_);
    if (number != attempt_) return;
    if (phase_ == Phase::collecting) {
      too_long_ = too_long_ || head_.body.size() + bytes.size() > kMostCollected;
      if (!too_long_) head_.body.append(bytes);
    } else if (phase_ == Phase::streaming) {
      lock.unlock();
      exchange_->write(std::string(bytes));
      if (exchange_->backlog_bytes() > kPauseAbove) await_client();
    }
  }

  // Runs on the client's thread, where call_ may not be set yet: then the next piece pauses.
  void await_client() {
    std::shared_ptr<ClientCall> call;
    {
      std::lock_guard lock(mutex_);
      call = call_;
    }
    if (!call) return;
    call->pause();
    exchange_->on_backlog_below(kResumeBelow, [call] { call->resume(); });
  }

  void take_end(int number, const ClientOutcome& outcome) {
    std::unique_lock lock(mutex_);
    if (number != attempt_ || phase_ == Phase::done) return;
    const Phase was = phase_;
    if (was == Phase::streaming) {
      finish(lock);
      if (outcome.ok()) return exchange_->end();
      spdlog::warn("relayed stream broke off: {}", outcome.error().text);
      exchange_.reset();  // cuts the connection: the client must not take this for the end
      return;
    }
    const bool refused = was == Phase::collecting && head_.status == request_.refusal;
    if (outcome.ok() && !refused) {
      finish(lock);
      return exchange_->respond(too_long_ ? bad_gateway("the worker's answer is longer than it said")
                                          : std::move(head_));
    }
    const AfterFailure then =
        outcome.ok() ? AfterFailure::next_worker : after_failure(outcome, exchange_->request().method);
    if (!outcome.ok()) {
      spdlog::warn("relay attempt failed: {}", outcome.error().text);
      attempt_failed_ = true;
    }
    if (then != AfterFailure::next_worker) {
      finish(lock);
      return exchange_->respond(
          then == AfterFailure::gateway_timeout
              ? gateway_error(504, "worker_timeout", "the worker did not answer in time")
              : bad_gateway("the worker broke off; whether it ran the request is unknown"));
    }
    if (outcome.ok() && !too_long_)
      held_back_ = std::move(head_);  // what the client gets when nobody else answers
    head_ = {};
    too_long_ = false;
    phase_ = Phase::waiting;
    lock.unlock();
    attempt(next_());
  }

  // Ends the exchange: no attempt follows. Releases `lock`, since the exchange must be called without it.
  void finish(std::unique_lock<std::mutex>& lock) {
    phase_ = Phase::done;
    release_worker();
    lock.unlock();
  }

  HttpResponse bad_gateway(std::string_view text) const { return gateway_error(502, "worker_lost", text); }
  HttpResponse gateway_error(int status, std::string_view code, std::string_view text) const {
    HttpResponse response = routing_error(status, code, text);
    add_cors(response.headers);
    return response;
  }

  void cancel() {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::done) return;
    phase_ = Phase::done;
    if (call_) call_->cancel();
    release_worker();
  }

  void release_worker() {
    if (worker_) worker_->in_flight->fetch_sub(1, std::memory_order_relaxed);
    worker_.reset();
  }

  HttpClient& client_;
  std::shared_ptr<Exchange> exchange_;
  const RelayRequest request_;
  const NextWorker next_;

  std::mutex mutex_;  // guards what follows; never held while the exchange is called
  HttpResponse unreachable_;
  std::optional<HttpResponse> held_back_;
  HttpResponse head_;
  WorkerPtr worker_;
  std::shared_ptr<ClientCall> call_;
  int attempt_ = 0;
  bool attempt_failed_ = false;
  bool too_long_ = false;  // a collected answer exceeds what is collected
  Phase phase_ = Phase::waiting;
};

}  // namespace

ClientRequest request_to_worker(const WorkerView& worker, const Exchange& exchange,
                                const RelayRequest& request) {
  ClientRequest asked{.method = exchange.request().method,
                      .host = reachable_host(worker.spec.host),
                      .port = static_cast<uint16_t>(worker.spec.port),
                      .target = request.target,
                      .headers = end_to_end_headers(exchange.request().headers),
                      .body = {},
                      .connect_timeout = kConnectTimeout,
                      .total_timeout = request.total_timeout};
  // Its one word on who the client is, in the place of whatever the client says.
  asked.headers.set("X-Forwarded-For", exchange.client());
  asked.headers.remove(kClientProofHeader);
  if (worker.proven) {
    asked.headers.set(std::string(kClientProofHeader), client_proof(worker.token, exchange.client()));
  }
  asked.headers.remove(kSearchHeader);
  if (worker.proven && request.searches) {
    asked.headers.set(std::string(kSearchHeader), search_proof(worker.token, request.target));
  }
  if (!request.password.empty()) {
    asked.headers.remove("Authorization");
    asked.headers.remove("X-Api-Key");
    if (worker.proven) asked.headers.set("Authorization", "Bearer " + request.password);
  }
  return asked;
}

AfterFailure after_failure(const ClientOutcome& outcome, std::string_view method) {
  if (!outcome.sent) return AfterFailure::next_worker;
  if (outcome.timed_out) return AfterFailure::gateway_timeout;
  for (const std::string_view idempotent : {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}) {
    if (method == idempotent) return AfterFailure::next_worker;
  }
  return AfterFailure::bad_gateway;
}

Headers end_to_end_headers(const Headers& headers) {
  Headers kept;
  for (const auto& field : headers) {
    const std::string& name = field.first;
    const bool hop = std::any_of(std::begin(kHopByHop), std::end(kHopByHop),
                                 [&](std::string_view one) { return equals_ignoring_case(name, one); });
    if (!hop && !headers.lists("Connection", name)) kept.add(name, field.second);
  }
  return kept;
}

void relay(HttpClient& client, std::shared_ptr<Exchange> exchange, RelayRequest request, NextWorker next,
           HttpResponse unreachable) {
  std::make_shared<Relay>(client, std::move(exchange), std::move(request), std::move(next),
                          std::move(unreachable))
      ->begin();
}

}  // namespace fulmar
