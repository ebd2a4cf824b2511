// The engine's doors for requests, from any thread; what changes rows is passed on as a command to the
// engine's thread.
#include <algorithm>
#include <future>

#include "base/unix_time.h"
#include "cache/session_name.h"
#include "engine/ask_rules.h"
#include "engine/engine_loop.h"

namespace fulmar {

std::vector<SequencePtr> EngineLoop::make_rows(std::vector<Ask> asks,
                                               const std::shared_ptr<RequestRecord>& record) {
  std::vector<SequencePtr> rows;
  std::shared_ptr<const StopTexts> texts;
  const std::vector<std::string>* texts_of = nullptr;  // rows of a request usually share their stop texts
  for (Ask& ask : asks) {
    auto sequence = std::make_unique<Sequence>();
    if (texts_of == nullptr || *texts_of != ask.stop.texts)
      texts = std::make_shared<const StopTexts>(ask.stop.texts);
    sequence->output =
        OutputText(texts, ask.stop.include_text, ask.sampling.top_logprobs >= 0, ask.stop.until);
    sequence->waiting_bytes = bytes_of(ask);
    sequence->ask = std::move(ask);
    for (std::string* session : {&sequence->ask.state.read_session, &sequence->ask.state.write_session}) {
      if (!session->empty() && !sequence->ask.state.server_named)
        *session = session_text(record->owner, *session);
    }
    texts_of = &sequence->ask.stop.texts;
    sequence->request = record;
    rows.push_back(std::move(sequence));
  }
  return rows;
}

// Registers the request as waiting, unless there is no room for it.
Status EngineLoop::let_in(const std::shared_ptr<RequestRecord>& record, std::span<const SequencePtr> rows) {
  QueueUse use{.requests = 1, .rows = static_cast<int64_t>(rows.size())};
  for (const SequencePtr& row : rows) use.bytes += row->waiting_bytes;
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) return Error{ErrorKind::unavailable, failure_};
  if (draining_) return Error{ErrorKind::unavailable, "Server is shutting down"};
  if (known_.contains(record->id)) {
    return Error{ErrorKind::conflict, "request id '" + record->id + "' is already running"};
  }
  if (Status room = queue_room_.take(record->owner, use); !room.ok()) {
    rejected_++;
    return room;
  }
  known_.emplace(record->id, record);
  return {};
}

Status EngineLoop::submit(Request request) {
  if (request.rows.empty()) return Error{ErrorKind::invalid, "the request has no rows; wanted at least 1"};
  // Answers that the store does not have yet are kept in memory: no more of them without bound.
  const auto writes = [](const Ask& ask) { return !ask.state.write_session.empty(); };
  if (std::any_of(request.rows.begin(), request.rows.end(), writes)) {
    FULMAR_TRY(keeper_->sessions().ladder().takes_more());
  }
  const AskLimits limits{.vocabulary = model_.config().vocab,
                         .slots = options_.slots,
                         .max_prompt_tokens = options_.max_prompt_tokens};
  for (const Ask& ask : request.rows) FULMAR_TRY(check_ask(ask, limits));

  auto record = std::make_shared<RequestRecord>();
  record->id = request.rows.front().request_id;
  record->owner = std::move(request.owner);
  record->endpoint = std::move(request.endpoint);
  record->adapter = request.rows.front().adapter.label;
  record->model = std::move(request.model);
  // Pausing saves one state; a mixture has several.
  record->resumable =
      request.resumable && request.rows.size() == 1 && request.rows.front().state.mixture.empty();
  record->listener = std::move(request.listener);
  record->held = std::move(request.held);
  record->created = unix_seconds();
  record->rows = record->rows_remaining = static_cast<int64_t>(request.rows.size());
  // Shared, because std::function has to be copyable.
  auto rows = std::make_shared<std::vector<SequencePtr>>(make_rows(std::move(request.rows), record));
  FULMAR_TRY(let_in(record, *rows));
  commands_.put([this, record, rows] {
    counters_.requests_total++;
    waiting_.add(std::move(*rows));
    if (record->cancel_requested) cancelled_.push_back(record);  // cancelled before its rows had arrived
  });
  return {};
}

bool EngineLoop::cancel(const Owner& owner, const std::string& request_id) {
  std::shared_ptr<RequestRecord> record;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(request_id);
    if (found == known_.end() || !owner.sees(found->second->owner)) return false;
    record = found->second;
    record->cancel_requested = true;
  }
  commands_.put([this, record] { cancelled_.push_back(record); });
  return true;
}

int64_t EngineLoop::cancel_all(const Owner& owner) {
  std::vector<std::shared_ptr<RequestRecord>> records;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, record] : known_) {
      if (!owner.sees(record->owner)) continue;
      record->cancel_requested = true;
      records.push_back(record);
    }
  }
  commands_.put([this, records] { cancelled_.insert(cancelled_.end(), records.begin(), records.end()); });
  return static_cast<int64_t>(records.size());
}

void EngineLoop::stop_all() {
  std::vector<std::shared_ptr<RequestRecord>> records;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, record] : known_) {
      record->cut_as = FinishReason::stopping;
      record->cancel_requested = true;
      records.push_back(record);
    }
  }
  commands_.put([this, records] { cancelled_.insert(cancelled_.end(), records.begin(), records.end()); });
}

bool EngineLoop::forget_paused(const Owner& owner, const std::string& request_id) {
  {
    std::lock_guard lock(mutex_);
    const auto found = paused_owners_.find(request_id);
    if (found == paused_owners_.end() || !owner.sees(found->second)) return false;
    paused_owners_.erase(found);
  }
  commands_.put([this, owner, request_id] {
    if (paused_.erase(request_id) == 0) cancel(owner, request_id);  // resumed meanwhile
    publish_stats();
  });
  return true;
}

// Runs the task on the engine thread and waits; on a closed engine the task does not run.
void EngineLoop::call_on_engine(const std::function<void()>& task) {
  if (std::this_thread::get_id() == thread_.get_id()) return task();
  struct Done {  // signals also when the device fails within the task
    std::promise<void>& promise;
    ~Done() { promise.set_value(); }
  };
  auto done = std::make_shared<std::promise<void>>();
  const bool taken = commands_.put([&task, done] {
    const Done said{*done};
    task();
  });
  if (taken) done->get_future().wait();
}

Result<std::string> EngineLoop::pause(const Owner& owner, const std::string& request_id) {
  Result<std::string> paused = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] { paused = pause_now(owner, request_id); });
  return paused;
}

void EngineLoop::drain(std::function<void()> done) {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  commands_.put([this, done = std::move(done)] { drained_.push_back(done); });
}

EngineStats EngineLoop::stats() const {
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;  // published after steps; speeds have to fall without steps, too
  stats.prefill_tokens_per_second =
      SpeedMeter(published_prefill_).per_second(std::chrono::steady_clock::now());
  stats.decode_tokens_per_second = SpeedMeter(published_decode_).per_second(std::chrono::steady_clock::now());
  return stats;
}

}  // namespace fulmar
