// The engine's rarer doors: pausing and resuming, and the picture it publishes of itself.
#include <algorithm>

#include "engine/engine_loop.h"
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

// Adds one row to the status of its request.
void add_row(RequestStatus& status, const Sequence& sequence) {
  status.prompt_tokens += static_cast<int64_t>(sequence.ask.prompt.size());
  status.prefilled_tokens += static_cast<int64_t>(sequence.fed);
  status.generated_tokens += static_cast<int64_t>(sequence.drawn.size());
  status.max_tokens += sequence.ask.max_tokens;
  status.session = sequence.ask.state.write_session;
  status.prefill_speed += per_second(static_cast<int64_t>(sequence.fed), sequence.prefill_seconds);
  status.decode_speed += per_second(static_cast<int64_t>(sequence.drawn_fed), sequence.decode_seconds);
}

}  // namespace

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
  Paused paused{.sequence = std::make_unique<Sequence>(*sequence), .state = pool_.read(sequence->slot)};
  sequence->finish = Finish{.reason = FinishReason::stop, .paused = true};
  end_row(std::move(sequence));
  deliver();
  paused_.insert_or_assign(id, std::move(paused));
  publish_stats();
  return id;
}

Status EngineLoop::resume_now(const std::string& request_id, int64_t max_tokens,
                              std::shared_ptr<Listener> listener) {
  const auto found = paused_.find(request_id);
  if (found == paused_.end()) return Error{ErrorKind::not_found, "Paused request not found"};
  if (free_slots_.empty()) return Error{ErrorKind::unavailable, "no free slot to resume into; try again"};

  SequencePtr sequence = std::move(found->second.sequence);
  sequence->slot = free_slots_.back();
  free_slots_.pop_back();
  pool_.write(sequence->slot, found->second.state);
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

RequestStatus EngineLoop::status_of(const RequestRecord& request) const {
  RequestStatus status{.id = request.id,
                       .endpoint = request.endpoint,
                       .model = request.model,
                       .created = request.created,
                       .rows = request.rows,
                       .waiting = request.rows_admitted == 0,
                       .stop_requested = request.cancel_requested,
                       .resumable = request.resumable};
  return status;
}

void EngineLoop::publish_stats() {
  const auto now = std::chrono::steady_clock::now();
  EngineStats stats = counters_;
  stats.slots_total = options_.slots;
  stats.slots_used = options_.slots - static_cast<int64_t>(free_slots_.size());
  stats.rows_waiting = static_cast<int64_t>(waiting_.size());
  stats.prefill_tokens_per_second = prefill_speed_.per_second(now);
  stats.decode_tokens_per_second = decode_speed_.per_second(now);

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
    SlotStatus& slot = stats.slots[static_cast<size_t>(sequence->slot)];
    slot.phase = phase_of(*sequence);
    slot.request_id = sequence->request->id;
    slot.prompt_tokens = static_cast<int64_t>(sequence->ask.prompt.size());
    slot.generated_tokens = static_cast<int64_t>(sequence->drawn.size());
  }
  for (const SequencePtr& sequence : waiting_) add_row(entry_of(*sequence), *sequence);
  for (const auto& [id, paused] : paused_) {
    stats.paused.push_back(status_of(*paused.sequence->request));
    add_row(stats.paused.back(), *paused.sequence);
  }

  std::lock_guard lock(mutex_);
  stats.requests_waiting = waiting_requests_;
  stats.requests_rejected = rejected_;
  stats_ = std::move(stats);
}

}  // namespace fulmar
