// Playing scripts.
#include "support/scripted_engine.h"

#include <algorithm>

#include "cache/session_name.h"

namespace fulmar::testing {
namespace {

TokenRecord record_of(const std::string& piece, const SamplingParams& sampling) {
  TokenRecord record;
  record.bytes = piece;
  record.token = piece.empty() ? 0 : static_cast<unsigned char>(piece[0]) + 1;
  record.logprob = -0.5f;
  for (int32_t i = 0; i < sampling.top_logprobs; ++i) {
    record.top.push_back({record.token + i, -0.5f - static_cast<float>(i)});
  }
  return record;
}

}  // namespace

ScriptedEngine::ScriptedEngine(Play play) : play_(std::move(play)), thread_([this] { loop(); }) {}

ScriptedEngine::~ScriptedEngine() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status ScriptedEngine::submit(Request request) {
  std::lock_guard lock(mutex_);
  if (refusal_) return *refusal_;
  Running running;
  for (const Ask& ask : request.rows) {
    asks_.push_back(ask);
    running.rows.push_back({ask, play_(ask)});
  }
  running.request = std::move(request);
  running_.push_back(std::move(running));
  ++submitted_;
  changed_.notify_all();
  return {};
}

bool ScriptedEngine::cancel(const Owner& owner, const std::string& request_id) {
  std::lock_guard lock(mutex_);
  for (Running& running : running_) {
    if (running.rows.front().ask.request_id != request_id) continue;
    if (!owner.sees(running.request.owner)) return false;
    running.cut = FinishReason::cancelled;
    changed_.notify_all();
    return true;
  }
  return false;
}

int64_t ScriptedEngine::cancel_all(const Owner& owner) {
  std::lock_guard lock(mutex_);
  int64_t count = 0;
  for (Running& running : running_) {
    if (!owner.sees(running.request.owner)) continue;
    running.cut = FinishReason::cancelled;
    ++count;
  }
  changed_.notify_all();
  return count;
}

void ScriptedEngine::stop_all() {
  std::lock_guard lock(mutex_);
  for (Running& running : running_) running.cut = FinishReason::stopping;
  changed_.notify_all();
}

bool ScriptedEngine::forget_paused(const Owner& owner, const std::string& request_id) {
  std::lock_guard lock(mutex_);
  return std::erase_if(paused_, [&](const Running& running) {
           return running.rows.front().ask.request_id == request_id && owner.sees(running.request.owner);
         }) > 0;
}

Result<std::string> ScriptedEngine::pause(const Owner& owner, const std::string& request_id) {
  std::lock_guard lock(mutex_);
  for (auto running = running_.rbegin(); running != running_.rend(); ++running) {
    const std::string& id = running->rows.front().ask.request_id;
    if (!running->request.resumable || (!request_id.empty() && id != request_id)) continue;
    if (!owner.sees(running->request.owner)) continue;
    running->cut = FinishReason::paused;
    changed_.notify_all();
    return id;
  }
  return Error{ErrorKind::not_found, "no such request"};
}

Status ScriptedEngine::resume(const Owner& owner, const std::string& request_id, int64_t max_tokens,
                              std::shared_ptr<Listener> listener) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(paused_.begin(), paused_.end(), [&](const Running& running) {
    return running.rows.front().ask.request_id == request_id && owner.sees(running.request.owner);
  });
  if (found == paused_.end()) return Error{ErrorKind::not_found, "no such paused request"};
  found->request.listener = std::move(listener);
  found->cut.reset();
  Row& row = found->rows.front();
  row.finished = row.admitted = false;
  if (max_tokens >= 0) row.ask.max_tokens = row.said + max_tokens;
  running_.splice(running_.end(), paused_, found);
  changed_.notify_all();
  return {};
}

void ScriptedEngine::drain(std::function<void()> done) {
  refuse(Error{ErrorKind::unavailable, "draining"});
  wait_idle();
  done();
}

EngineStats ScriptedEngine::stats() const {
  std::lock_guard lock(mutex_);
  EngineStats stats;
  stats.slots_total = 8;
  stats.slots_used = std::min<int64_t>(8, static_cast<int64_t>(running_.size()));
  stats.rows_decode = stats.slots_used;
  stats.requests_total = submitted_;
  stats.requests_completed = completed_;
  stats.requests_cancelled = cancelled_;
  stats.start_time = 1785945600;
  stats.failure = failure_;
  const auto status_of = [](const Running& running) {
    RequestStatus status;
    status.id = running.rows.front().ask.request_id;
    status.owner = running.request.owner;
    status.endpoint = running.request.endpoint;
    status.model = running.request.model;
    status.created = 1785945600;
    status.generated_tokens = running.rows.front().said;
    status.session = running.rows.front().ask.state.write_session;
    return status;
  };
  for (const Running& running : running_) stats.requests.push_back(status_of(running));
  for (const Running& running : paused_) stats.paused.push_back(status_of(running));
  for (int64_t i = 0; i < stats.slots_total; ++i) {
    SlotStatus slot;
    slot.id = i;
    if (i < stats.slots_used) slot.phase = SlotStatus::Phase::decode;
    stats.slots.push_back(slot);
  }
  return stats;
}

Result<std::vector<SessionInfo>> ScriptedEngine::sessions(const Owner& owner) {
  std::lock_guard lock(mutex_);
  std::vector<SessionInfo> list;
  for (const std::string& key : sessions_) {
    SessionName named = session_name(key);
    if (!owner.sees(named.owner)) continue;
    list.push_back({.id = named.id, .level = SessionInfo::Level::device, .owner = named.owner});
  }
  return list;
}

Result<bool> ScriptedEngine::has_session(const Owner& owner, const std::string& id) {
  std::lock_guard lock(mutex_);
  return sessions_.contains(session_text(owner.name, id));
}

Result<int64_t> ScriptedEngine::erase_session(const Owner& owner, const std::string& id, bool and_branches) {
  if (erasing_fails_) return Error{ErrorKind::io, "the disk is malformed"};
  std::lock_guard lock(mutex_);
  const SessionRange range{session_text(owner.name, id), and_branches};
  return static_cast<int64_t>(
      std::erase_if(sessions_, [&](const std::string& held) { return range.covers(held); }));
}

Result<StateBlob> ScriptedEngine::export_session(const Owner&, const std::string& id) {
  return Error{ErrorKind::not_found, "session '" + id + "' has no state here"};
}

Status ScriptedEngine::import_session(const Owner& owner, const std::string& id, const StateBlob&) {
  std::lock_guard lock(mutex_);
  sessions_.insert(session_text(owner.name, id));
  return {};
}

Status ScriptedEngine::add_states(const std::map<std::string, StateNumbers>& states) {
  std::lock_guard lock(mutex_);
  for (const auto& [name, numbers] : states) states_.insert(name);
  return {};
}

bool ScriptedEngine::remove_state(const std::string& name) {
  std::lock_guard lock(mutex_);
  return states_.erase(name) > 0;
}

std::vector<std::string> ScriptedEngine::states() {
  std::lock_guard lock(mutex_);
  return {states_.begin(), states_.end()};
}

void ScriptedEngine::refuse(std::optional<Error> error) {
  std::lock_guard lock(mutex_);
  refusal_ = std::move(error);
}

void ScriptedEngine::hold_after(int64_t tokens) {
  std::lock_guard lock(mutex_);
  hold_ = tokens;
  changed_.notify_all();
}

bool ScriptedEngine::wait_idle() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return running_.empty(); });
}

std::vector<Ask> ScriptedEngine::asks() const {
  std::lock_guard lock(mutex_);
  return asks_;
}

void ScriptedEngine::loop() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    lock.unlock();
    const bool moved = step();
    lock.lock();
    if (!moved && !closing_) changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
}

bool ScriptedEngine::step() {
  struct Delivery {
    std::shared_ptr<Listener> listener;
    std::vector<Event> events;
  };
  std::vector<Delivery> deliveries;
  {
    std::lock_guard lock(mutex_);
    for (auto running = running_.begin(); running != running_.end();) {
      Delivery delivery{running->request.listener, {}};
      for (Row& row : running->rows) advance(*running, row, delivery.events);
      if (!delivery.events.empty()) deliveries.push_back(std::move(delivery));
      const bool done = std::all_of(running->rows.begin(), running->rows.end(),
                                    [](const Row& row) { return row.finished; });
      const auto current = running++;
      if (!done) continue;
      if (current->cut && *current->cut != FinishReason::paused) ++cancelled_;
      ++completed_;
      if (current->cut == FinishReason::paused) {
        paused_.splice(paused_.end(), running_, current);
      } else {
        running_.erase(current);
      }
    }
  }
  for (Delivery& delivery : deliveries) delivery.listener->deliver(std::move(delivery.events));
  changed_.notify_all();
  return !deliveries.empty();
}

void ScriptedEngine::advance(Running& running, Row& row, std::vector<Event>& events) {
  if (row.finished) return;
  const bool ending = running.cut.has_value();
  if (!ending && hold_ >= 0 && row.said >= hold_) return;
  Event event;
  event.index = row.ask.index;
  event.at = std::chrono::steady_clock::now();
  if (!row.admitted && (!ending || running.cut == FinishReason::paused)) {
    row.admitted = true;
    event.kind = Event::Kind::admitted;
    events.push_back(event);
    return;
  }
  const auto length = static_cast<int64_t>(row.script.pieces.size());
  if (!ending && row.said < std::min(length, row.ask.max_tokens)) {
    const std::string& piece = row.script.pieces[static_cast<size_t>(row.said++)];
    event.kind = Event::Kind::text;
    event.text = piece;
    event.sampled = 1;
    if (row.ask.sampling.top_logprobs >= 0) event.tokens.push_back(record_of(piece, row.ask.sampling));
    events.push_back(std::move(event));
    return;
  }
  row.finished = true;
  event.kind = Event::Kind::finished;
  event.usage.prompt_tokens = static_cast<int64_t>(row.ask.prompt.size());
  event.usage.completion_tokens = row.said;
  event.usage.adapter = row.ask.adapter.label;
  event.usage.accepted_draft_tokens = row.script.accepted;
  event.usage.rejected_draft_tokens = row.script.rejected;
  if (running.cut) {
    event.reason = *running.cut;
  } else if (row.said >= row.ask.max_tokens) {
    event.reason = FinishReason::length;
  } else {
    event.reason = row.script.reason;
    event.stop_id = row.script.stop_id;
    event.stop_text = row.script.stop_text;
    event.error = row.script.error;
  }
  const std::string& session = row.ask.state.write_session;
  event.wrote_session = !session.empty() && !is_cut(event.reason) && event.reason != FinishReason::failed;
  if (event.wrote_session) {
    sessions_.insert(row.ask.state.server_named ? session : session_text(running.request.owner, session));
  }
  events.push_back(std::move(event));
}

}  // namespace fulmar::testing
