// The thread-safe side of an exchange: which calls are valid when, and the report that the client has gone.
#include <exception>
#include <utility>

#include "net/exchange_state.h"
#include "net/http_server.h"

namespace fulmar {

void DeliveryInbox::put(Delivery delivery) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  waiting_.push_back(std::move(delivery));
  if (std::exchange(woken_, true)) return;
  try {
    wake_();
  } catch (const std::exception&) {
    woken_ = false;
  }
}

void DeliveryInbox::take(std::vector<Delivery>& taken) {
  std::lock_guard lock(mutex_);
  taken.swap(waiting_);
  woken_ = false;
}

void DeliveryInbox::close() {
  std::vector<Delivery> dropped;
  std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(waiting_);
}

void ExchangeState::deliver(Delivery::Kind kind, std::unique_ptr<HttpResponse> response, std::string bytes) {
  try {
    inbox_->put({shared_from_this(), kind, std::move(response), std::move(bytes)});
  } catch (const std::exception&) {
    lose();
    throw;
  }
}

bool ExchangeState::advance(Phase from, Phase to) {
  std::function<void()>
      forgotten;  // destroyed after the lock is gone: it may own the last reference to anything
  std::lock_guard lock(mutex_);
  if (phase_ != from) return false;
  phase_ = to;
  if (to == Phase::done) forgotten = std::exchange(on_disconnect_, {});
  return true;
}

void ExchangeState::respond(HttpResponse response) {
  auto held = std::make_unique<HttpResponse>(std::move(response));
  if (advance(Phase::owed, Phase::done)) deliver(Delivery::Kind::respond, std::move(held));
}

void ExchangeState::begin_stream(HttpResponse head) {
  auto held = std::make_unique<HttpResponse>(std::move(head));
  if (advance(Phase::owed, Phase::streaming)) deliver(Delivery::Kind::begin_stream, std::move(held));
}

void ExchangeState::write(std::string bytes) {
  if (bytes.empty() || gone_.load(std::memory_order_acquire)) return;
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::streaming) return;
  }
  const size_t size = bytes.size();
  if (backlog_bytes_.fetch_add(size) + size > max_backlog_bytes_) {
    if (!gone_.exchange(true)) deliver(Delivery::Kind::cut);
    return;
  }
  deliver(Delivery::Kind::event, nullptr, std::move(bytes));
}

void ExchangeState::end() {
  if (gone_.load(std::memory_order_acquire)) return;
  if (advance(Phase::streaming, Phase::done)) deliver(Delivery::Kind::end);
}

void ExchangeState::let_go() {
  if (advance(Phase::owed, Phase::done)) {
    deliver(Delivery::Kind::drop);
  } else if (advance(Phase::streaming, Phase::done)) {
    deliver(Delivery::Kind::cut);
  }
}

void ExchangeState::on_disconnect(std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::done) on_disconnect_.swap(callback);
    if (!gone_unanswered_) return;
  }
  if (callback) callback();
}

// Sets the flag before it reads the backlog; sent() lowers the backlog before it reads the flag: so one of
// the two sees the other.
void ExchangeState::on_backlog_below(size_t bytes, std::function<void()> callback) {
  {
    std::lock_guard lock(mutex_);
    on_backlog_below_.swap(callback);
    backlog_mark_ = bytes;
    backlog_watched_ = true;
  }
  sent(0);
}

void ExchangeState::sent(size_t bytes) {
  const size_t remaining = backlog_bytes_.fetch_sub(bytes) - bytes;
  if (!backlog_watched_) return;
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    if (remaining > backlog_mark_ || gone_) return;
    callback = std::exchange(on_backlog_below_, {});
    backlog_watched_ = false;
  }
  if (callback) callback();
}

std::string ExchangeState::take_body() {
  body_lease_.give_back();
  return std::exchange(request.body, {});
}

void ExchangeState::client_gone() {
  std::function<void()> callback;
  std::function<void()> forgotten;
  {
    std::lock_guard lock(mutex_);
    gone_.store(true, std::memory_order_release);
    gone_unanswered_ = phase_ != Phase::done;
    phase_ = Phase::done;
    callback = std::exchange(on_disconnect_, {});
    forgotten = std::exchange(on_backlog_below_, {});
  }
  if (callback) callback();
}

Exchange::Exchange(std::shared_ptr<ExchangeState> state) : state_(std::move(state)) {}
Exchange::~Exchange() { state_->let_go(); }
const HttpRequest& Exchange::request() const { return state_->request; }
const std::string& Exchange::client() const { return state_->request.client; }
std::string Exchange::take_body() { return state_->take_body(); }
void Exchange::respond(HttpResponse response) { state_->respond(std::move(response)); }
void Exchange::begin_stream(HttpResponse head) { state_->begin_stream(std::move(head)); }
void Exchange::write(std::string event_bytes) { state_->write(std::move(event_bytes)); }
void Exchange::end() { state_->end(); }
size_t Exchange::backlog_bytes() const { return state_->backlog_bytes(); }
void Exchange::on_backlog_below(size_t bytes, std::function<void()> callback) {
  state_->on_backlog_below(bytes, std::move(callback));
}
bool Exchange::disconnected() const { return state_->disconnected(); }
void Exchange::on_disconnect(std::function<void()> callback) { state_->on_disconnect(std::move(callback)); }

}  // namespace fulmar
