// The part of an exchange that several threads share, and the queue by which answers reach an IO thread.
// Knows no socket: a connection appears here as the AnswerSink that deliveries end in.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/body_budget.h"
#include "net/http_message.h"

namespace fulmar {

class ExchangeState;

// One thing that a handler's thread wants an IO thread to do.
struct Delivery {
  enum class Kind { respond, begin_stream, event, end, drop, cut };

  std::shared_ptr<ExchangeState> exchange;
  Kind kind = Kind::cut;
  std::unique_ptr<HttpResponse> response;  // respond and begin_stream
  std::string bytes;                       // event
};

// Where deliveries end; called on the connection's IO thread only.
class AnswerSink {
 public:
  virtual void deliver(Delivery delivery) = 0;

 protected:
  ~AnswerSink() = default;
};

// Deliveries on their way to one IO thread. Only the first of a batch wakes the thread: whatever is put until
// the thread comes to take it travels along, so that a step of hundreds of events costs about one wake-up.
class DeliveryInbox {
 public:
  // `wake` makes the IO thread call take() soon. It is never called after close(). Where it throws, whatever
  // else makes the thread call take() will do.
  explicit DeliveryInbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void put(Delivery delivery);
  // Swaps what has come into `taken`, which must be empty.
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
  ExchangeState(HttpRequest asked, BodyLease body_lease, std::shared_ptr<DeliveryInbox> inbox,
                size_t max_backlog_bytes)
      : request(std::move(asked)),
        inbox_(std::move(inbox)),
        max_backlog_bytes_(max_backlog_bytes),
        body_lease_(std::move(body_lease)) {}

  // Any thread; see Exchange.
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

  // Any thread: a part of the answer is lost, for want of memory. Its connection is cut at the next sweep.
  void lose() { lost_.store(true); }
  bool lost() const { return lost_.load(); }

  // IO thread: the client has gone. Runs the callback if an answer was still owed.
  void client_gone();
  // IO thread: this much of what was written is with the operating system.
  void sent(size_t bytes);

  HttpRequest request;
  AnswerSink* sink = nullptr;  // IO thread only; null once the connection is done with this exchange

 private:
  enum class Phase { owed, streaming, done };

  void deliver(Delivery::Kind kind, std::unique_ptr<HttpResponse> response = nullptr, std::string bytes = {});
  // Changes `from` to `to`; moves the callback out when nothing is owed any more. False in another phase.
  bool advance(Phase from, Phase to);

  const std::shared_ptr<DeliveryInbox> inbox_;
  const size_t max_backlog_bytes_;
  std::atomic<size_t> backlog_bytes_{0};
  std::atomic<bool> gone_{false};
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  Phase phase_ = Phase::owed;
  bool gone_unanswered_ = false;  // the client went while an answer was owed
  std::function<void()> on_disconnect_;
  std::function<void()> on_backlog_below_;
  size_t backlog_mark_ = 0;                   // what on_backlog_below_ waits for
  std::atomic<bool> backlog_watched_{false};  // on_backlog_below_ is set
  BodyLease body_lease_;
};

}  // namespace fulmar
