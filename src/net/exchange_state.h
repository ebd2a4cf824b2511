// The part of an exchange that several threads share, and the queue that takes answers to an IO thread. Knows
// no socket: a connection appears here as the AnswerSink that receives deliveries.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/client_budget.h"
#include "net/http_message.h"

namespace fulmar {

class ExchangeState;

// One action that a handler's thread requests of an IO thread.
struct Delivery {
  enum class Kind { respond, begin_stream, event, end, drop, cut };

  std::shared_ptr<ExchangeState> exchange;
  Kind kind = Kind::cut;
  std::unique_ptr<HttpResponse> response;  // respond and begin_stream
  std::string bytes;                       // event
};

// Receives deliveries; called on the connection's IO thread only.
class AnswerSink {
 public:
  virtual void deliver(Delivery delivery) = 0;

 protected:
  ~AnswerSink() = default;
};

// Deliveries waiting for one IO thread. Only the first of a batch wakes the thread: deliveries put before it
// takes them come along, so that a step of hundreds of events costs about one wake-up.
class DeliveryInbox {
 public:
  // Makes an inbox. `wake` makes the IO thread call take() soon; it is never called after close(). If it
  // throws, deliveries wait for the next take().
  explicit DeliveryInbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void put(Delivery delivery);
  // Swaps the waiting deliveries into `taken`, which must be empty.
  void take(std::vector<Delivery>& taken);
  void close();

 private:
  std::mutex mutex_;
  std::vector<Delivery> waiting_;
  std::function<void()> wake_;
  bool woken_ = false;  // since the last take()
  bool closed_ = false;
};

class ExchangeState : public std::enable_shared_from_this<ExchangeState> {
 public:
  ExchangeState(HttpRequest asked, ClientLease body_lease, std::shared_ptr<DeliveryInbox> inbox,
                size_t max_backlog_bytes)
      : request(std::move(asked)),
        inbox_(std::move(inbox)),
        max_backlog_bytes_(max_backlog_bytes),
        body_lease_(std::move(body_lease)) {}

  // Answers the request; from any thread, see Exchange.
  void respond(HttpResponse response);
  void begin_stream(HttpResponse head);
  void write(std::string bytes);
  void end();
  void let_go();
  void on_disconnect(std::function<void()> callback);
  size_t backlog_bytes() const { return backlog_bytes_.load(); }
  void on_backlog_below(size_t bytes, std::function<void()> callback);
  std::string take_body();
  bool disconnected() const { return gone_.load(std::memory_order_acquire); }

  // Notes (any thread) that memory for a part of the answer was lacking; the next sweep cuts its connection.
  void lose() { lost_.store(true); }
  bool lost() const { return lost_.load(); }

  // Notes on the IO thread that the client has gone. Runs the callback if the answer was not complete.
  void client_gone();
  // Notes on the IO thread that the operating system has taken `bytes` of what was written.
  void sent(size_t bytes);

  HttpRequest request;
  AnswerSink* sink = nullptr;  // IO thread only; null once the connection is done with this exchange

 private:
  enum class Phase { owed, streaming, done };

  void deliver(Delivery::Kind kind, std::unique_ptr<HttpResponse> response = nullptr, std::string bytes = {});
  // Changes `from` to `to`, moves the callback out when the answer is complete. False in another phase.
  bool advance(Phase from, Phase to);

  const std::shared_ptr<DeliveryInbox> inbox_;
  const size_t max_backlog_bytes_;
  std::atomic<size_t> backlog_bytes_{0};
  std::atomic<bool> gone_{false};
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  Phase phase_ = Phase::owed;
  bool gone_unanswered_ = false;  // the client went before its answer was complete
  std::function<void()> on_disconnect_;
  std::function<void()> on_backlog_below_;
  size_t backlog_mark_ = 0;                   // what on_backlog_below_ waits for
  std::atomic<bool> backlog_watched_{false};  // on_backlog_below_ is set
  ClientLease body_lease_;
};

}  // namespace fulmar
