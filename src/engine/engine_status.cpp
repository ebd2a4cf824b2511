// The engine's rarer doors: pausing and resuming, sessions and tuned states, and the picture it publishes of
// itself.
#include <algorithm>

#include "engine/engine_loop.h"
#include "engine/request_status.h"
#include "engine/settle.h"

namespace fulmar {

namespace {

SlotStatus::Phase phase_of(const Sequence& sequence) {
  switch (sequence.phase) {
    case Sequence::Phase::prefill:
      return SlotStatus::Phase::prefill;
    case Sequence::Phase::decode:
      return SlotStatus::Phase::decode;
    case Sequence::Phase::closing:
      return SlotStatus::Phase::closing;
  }
  return SlotStatus::Phase::free;
}

double per_second(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
}

// Paused requests are kept until resumed; beyond this many the oldest is given up.
constexpr size_t kMostPaused = 64;

}  // namespace

void add_row(RequestStatus& status, const Sequence& sequence) {
  status.prompt_tokens += static_cast<int64_t>(sequence.ask.prompt.size());
  status.prefilled_tokens += static_cast<int64_t>(sequence.fed);
  status.generated_tokens += static_cast<int64_t>(sequence.drawn.size());
  status.max_tokens += sequence.ask.max_tokens;
  status.session = sequence.ask.state.write_session;
  status.prefill_speed += per_second(static_cast<int64_t>(sequence.fed), sequence.prefill_seconds);
  status.decode_speed += per_second(static_cast<int64_t>(sequence.drawn_fed), sequence.decode_seconds);
}

RequestStatus status_of(const RequestRecord& request) {
  RequestStatus status = request.ended_rows;
  status.id = request.id;
  status.endpoint = request.endpoint;
  status.model = request.model;
  status.created = request.created;
  status.rows = request.rows;
  status.waiting = request.rows_admitted == 0;
  status.stop_requested = request.cancel_requested;
  status.resumable = request.resumable;
  return status;
}

Result<std::string> EngineLoop::pause_now(const std::string& request_id) {
  SequencePtr* chosen = nullptr;
  for (SequencePtr& sequence : running_) {
    if (!sequence->request->resumable || sequence->phase != Sequence::Phase::decode) continue;
    if (request_id.empty() || sequence->request->id == request_id) chosen = &sequence;
  }
  if (chosen == nullptr) return Error{ErrorKind::not_found, "no running request that can be paused"};

  SequencePtr sequence = std::move(*chosen);
  std::erase(running_, nullptr);
  const std::string id = sequence->request->id;
  Paused paused{.state = keeper_->take_out(*sequence), .since = ++pauses_};
  paused.sequence = std::make_unique<Sequence>(*sequence);
  paused.sequence->slot = -1;
  sequence->rewind_point.reset();
  sequence->finish = Finish{.reason = FinishReason::stop, .paused = true};
  keeper_->close(*sequence);
  end_row(std::move(sequence));
  deliver();
  paused_.insert_or_assign(id, std::move(paused));
  if (paused_.size() > kMostPaused) {
    paused_.erase(std::min_element(paused_.begin(), paused_.end(), [](const auto& a, const auto& b) {
      return a.second.since < b.second.since;
    }));
  }
  publish_stats();
  return id;
}

Status EngineLoop::resume_now(const std::string& request_id, int64_t max_tokens,
                              std::shared_ptr<Listener> listener) {
  const auto found = paused_.find(request_id);
  if (found == paused_.end()) return Error{ErrorKind::not_found, "Paused request not found"};
  FULMAR_TRY(keeper_->put_back(*found->second.sequence, found->second.state));
  SequencePtr sequence = std::move(found->second.sequence);
  paused_.erase(found);
  if (max_tokens >= 0) sequence->ask.max_tokens = static_cast<int64_t>(sequence->drawn.size()) + max_tokens;

  auto record = std::make_shared<RequestRecord>();
  record->id = request_id;
  record->endpoint = "server.resume";
  record->model = sequence->request->model;
  record->resumable = true;
  record->listener = std::move(listener);
  record->created = sequence->request->created;
  record->rows = record->rows_left = record->rows_admitted = 1;
  record->in_queue = false;
  {
    std::lock_guard lock(mutex_);
    known_[request_id] = record;
  }
  counters_.requests_total++;
  sequence->request = std::move(record);
  emit(*sequence, {.kind = Event::Kind::admitted, .index = sequence->ask.index});
  running_.push_back(std::move(sequence));
  return {};
}

std::vector<SessionInfo> EngineLoop::sessions() {
  std::vector<SessionInfo> found;
  call_on_engine([&] { found = keeper_->sessions().list(); });
  return found;
}

bool EngineLoop::has_session(const std::string& id) {
  bool has = false;
  call_on_engine([&] { has = keeper_->sessions().contains(id); });
  return has;
}

int64_t EngineLoop::erase_session(const std::string& id, bool and_branches) {
  int64_t erased = 0;
  call_on_engine([&] {
    const std::string branch = id + ":";
    const auto concerned = [&](const std::string& session) {
      return session == id || (and_branches && session.starts_with(branch));
    };
    for (const SequencePtr& sequence : running_) {
      if (concerned(sequence->ask.state.write_session)) keeper_->forget_session(*sequence);
    }
    for (const SequencePtr& sequence : waiting_) {
      const StateLink& link = sequence->ask.state;
      if (concerned(link.write_session) || concerned(link.read_session)) keeper_->forget_session(*sequence);
    }
    erased = keeper_->sessions().erase(id, and_branches);
  });
  return erased;
}

Result<StateBlob> EngineLoop::export_session(const std::string& id) {
  Result<StateBlob> exported = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] {
    auto found = keeper_->sessions().read(id);
    if (!found.ok()) {
      exported = found.error();
    } else if (!found->has_value()) {
      exported = Error{ErrorKind::not_found, "session '" + id + "' does not exist"};
    } else {
      exported = std::move(**found);
    }
  });
  return exported;
}

Status EngineLoop::import_session(const std::string& id, const StateBlob& blob) {
  Result<TurnTicket> imported = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] { imported = keeper_->import_session(id, blob); });
  FULMAR_ASSIGN(const TurnTicket ticket, std::move(imported));
  if (!ticket) return {};
  ticket->wait(TurnFate::under_way);  // on the caller's thread; the store's own patience bounds it
  if (*ticket == TurnFate::refused) return overtaken(id);
  return {};
}

Status EngineLoop::add_state(const std::string& name, const std::vector<std::vector<float>>& wkv) {
  Status added = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] { added = keeper_->add_state(name, wkv); });
  return added;
}

bool EngineLoop::remove_state(const std::string& name) {
  bool removed = false;
  call_on_engine([&] { removed = keeper_->remove_state(name); });
  return removed;
}

std::vector<std::string> EngineLoop::states() {
  std::vector<std::string> names;
  call_on_engine([&] { names = keeper_->states(); });
  return names;
}

void EngineLoop::clear_prefixes() {
  call_on_engine([&] { keeper_->prefixes().clear(); });
}

void EngineLoop::publish_stats() {
  const auto now = std::chrono::steady_clock::now();
  published_ = now;
  EngineStats stats = counters_;
  keeper_->add_to(stats);
  stats.slots_total = options_.slots;
  stats.slots_used = options_.slots - keeper_->free_slots();
  stats.rows_waiting = static_cast<int64_t>(waiting_.size());

  stats.slots.resize(static_cast<size_t>(options_.slots));
  for (size_t i = 0; i < stats.slots.size(); i++) stats.slots[i].id = static_cast<int64_t>(i);
  std::unordered_map<const RequestRecord*, size_t> index;
  const auto entry_of = [&](const Sequence& sequence) -> RequestStatus& {
    const auto [found, inserted] = index.emplace(sequence.request.get(), stats.requests.size());
    if (inserted) stats.requests.push_back(status_of(*sequence.request));
    return stats.requests[found->second];
  };
  for (const SequencePtr& sequence : running_) {
    add_row(entry_of(*sequence), *sequence);
    (sequence->phase == Sequence::Phase::decode ? stats.rows_decode : stats.rows_prefill)++;
    const auto show_in = [&](int64_t place) {
      SlotStatus& slot = stats.slots[static_cast<size_t>(place)];
      slot.phase = phase_of(*sequence);
      slot.request_id = sequence->request->id;
      slot.prompt_tokens = static_cast<int64_t>(sequence->ask.prompt.size());
      slot.generated_tokens = static_cast<int64_t>(sequence->drawn.size());
    };
    show_in(sequence->slot);
    for (const int64_t slot : sequence->more_slots) show_in(slot);
  }
  for (const SequencePtr& sequence : storing_) add_row(entry_of(*sequence), *sequence);
  for (const SequencePtr& sequence : waiting_) add_row(entry_of(*sequence), *sequence);
  for (const auto& [id, paused] : paused_) {
    stats.paused.push_back(status_of(*paused.sequence->request));
    add_row(stats.paused.back(), *paused.sequence);
  }

  std::lock_guard lock(mutex_);
  stats.requests_waiting = waiting_requests_;
  stats.requests_rejected = rejected_;
  stats_ = std::move(stats);
  published_prefill_ = prefill_speed_;
  published_decode_ = decode_speed_;
}

}  // namespace fulmar
