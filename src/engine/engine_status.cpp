// The engine's other doors: pause and resume, sessions and tuned states, and the status that it publishes.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/count.h"
#include "base/fair_room.h"
#include "base/log.h"
#include "cache/session_name.h"
#include "engine/ask_rules.h"
#include "engine/drawn_token.h"
#include "engine/engine_loop.h"
#include "engine/request_status.h"

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

Error not_paused() { return {ErrorKind::not_found, "Paused request not found"}; }

// The most paused requests, each with a state in host memory.
constexpr RoomBounds kMostPaused{32, 64};

// Status pages are at most this old while rows run, or older where publishing would take more than this share
// of the time.
constexpr auto kPublishEvery = std::chrono::milliseconds(20);
constexpr int kPublishShare = 50;

}  // namespace

void add_row(RequestStatus& status, const Sequence& sequence) {
  status.prompt_tokens += static_cast<int64_t>(sequence.ask.prompt.size());
  status.prefilled_tokens += static_cast<int64_t>(sequence.fed);
  status.generated_tokens += static_cast<int64_t>(sequence.drawn.size());
  status.max_tokens += sequence.ask.max_tokens;
  status.session = session_id_of(sequence.ask.state.write_session);
  status.prefill_speed += per_second(static_cast<int64_t>(sequence.fed), sequence.prefill_seconds);
  status.decode_speed += per_second(static_cast<int64_t>(sequence.drawn_fed), sequence.decode_seconds);
}

void add_waiting(RequestStatus& status, const RequestStatus& sums) {
  status.prompt_tokens += sums.prompt_tokens;
  status.max_tokens += sums.max_tokens;
  status.session = sums.session;
}

RequestStatus status_of(const RequestRecord& request) {
  RequestStatus status = request.ended_rows;
  status.id = request.id;
  status.owner = request.owner;
  status.endpoint = request.endpoint;
  status.model = request.model;
  status.adapter = request.adapter;
  status.created = request.created;
  status.rows = request.rows;
  status.waiting = request.rows_admitted == 0;
  status.stop_requested = request.cancel_requested;
  status.resumable = request.resumable;
  return status;
}

// Says why the owner may pause no more.
Status EngineLoop::room_to_pause(const std::string& owner) const {
  int64_t own = 0;
  for (const auto& [id, paused] : paused_) own += paused.sequence->request->owner == owner ? 1 : 0;
  const auto others = static_cast<int64_t>(paused_.size()) - own;
  const int64_t room = room_of(own, others, kMostPaused);
  if (own < room) return {};
  return Error{
      ErrorKind::resource,
      fmt::format("{} of your requests are paused, of at most {} now; resume or cancel one", own, room)};
}

Result<std::string> EngineLoop::pause_now(const Owner& owner, const std::string& request_id) {
  finish_steps();
  Sequence* chosen = nullptr;
  for (SequencePtr& sequence : running_) {
    if (!sequence->request->resumable || sequence->phase != Sequence::Phase::decode) continue;
    if (!owner.sees(sequence->request->owner)) continue;
    if (request_id.empty() || sequence->request->id == request_id) chosen = sequence.get();
  }
  if (chosen == nullptr) return Error{ErrorKind::not_found, "no running request that can be paused"};

  const std::string id = chosen->request->id;
  FULMAR_TRY(room_to_pause(chosen->request->owner));
  Paused paused{.sequence = nullptr, .state = keeper_->take_out(*chosen)};
  paused.sequence = std::make_unique<Sequence>(*chosen);
  paused.sequence->slot = -1;
  paused.sequence->drafts = {};
  chosen->rewind_point.reset();
  chosen->finish = Finish{.reason = FinishReason::paused};
  {
    std::lock_guard lock(mutex_);
    paused_owners_[id] = chosen->request->owner;
  }
  paused_.insert_or_assign(id, std::move(paused));
  end_rows();
  deliver();
  publish_stats();
  return id;
}

EngineLoop::Paused* EngineLoop::find_paused(const Owner& owner, const std::string& request_id) {
  const auto found = paused_.find(request_id);
  const bool seen = found != paused_.end() && owner.sees(found->second.sequence->request->owner);
  return seen ? &found->second : nullptr;
}

Status EngineLoop::resume(const Owner& owner, const std::string& request_id, int64_t max_tokens,
                          std::shared_ptr<Listener> listener) {
  FULMAR_TRY(check_max_tokens(std::max<int64_t>(max_tokens, 0)));
  Status resumed = Error{ErrorKind::unavailable, "Server is shutting down"};
  SessionHold session;
  call_on_engine([&] {
    const Paused* found = find_paused(owner, request_id);
    resumed = found ? Status() : Status(not_paused());
    if (found) session = found->sequence->session;
  });
  FULMAR_TRY(resumed);
  SessionLadder& ladder = keeper_->sessions().ladder();
  SessionClaimPtr claim;
  if (session.claim) {
    FULMAR_ASSIGN(claim, ladder.reclaim(*session.claim, session.turn));
  }
  resumed = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] { resumed = resume_now(owner, request_id, max_tokens, std::move(listener), claim); });
  if (!resumed.ok()) ladder.release(std::move(claim));
  return resumed;
}

Status EngineLoop::resume_now(const Owner& owner, const std::string& request_id, int64_t max_tokens,
                              std::shared_ptr<Listener> listener, SessionClaimPtr claim) {
  Paused* found = find_paused(owner, request_id);
  if (!found) return not_paused();
  FULMAR_TRY(keeper_->put_back(*found->sequence, found->state, std::move(claim)));
  SequencePtr sequence = std::move(found->sequence);
  paused_.erase(request_id);
  if (max_tokens >= 0) sequence->ask.max_tokens = (Count(sequence->drawn.size()) + max_tokens).value();

  auto record = std::make_shared<RequestRecord>();
  record->id = request_id;
  record->owner = sequence->request->owner;
  record->endpoint = "server.resume";
  record->model = sequence->request->model;
  record->adapter = sequence->request->adapter;
  record->resumable = true;
  record->listener = std::move(listener);
  record->held = sequence->request->held;
  record->created = sequence->request->created;
  record->rows = record->rows_remaining = record->rows_admitted = 1;
  record->in_queue = false;
  {
    std::lock_guard lock(mutex_);
    known_[request_id] = record;
    paused_owners_.erase(request_id);
  }
  counters_.requests_total++;
  sequence->request = std::move(record);
  emit(*sequence, {.kind = Event::Kind::admitted, .index = sequence->ask.index});
  running_.push_back(std::move(sequence));
  return {};
}

Result<std::vector<SessionInfo>> EngineLoop::sessions(const Owner& owner) {
  SessionQuery query;
  if (!owner.administers) query.prefix = owner_prefix(owner.name);
  FULMAR_ASSIGN(std::vector<SessionInfo> seen, keeper_->sessions().ladder().list(query));
  for (SessionInfo& session : seen) {
    SessionName named = session_name(session.id);
    session.id = std::move(named.id);
    session.owner = std::move(named.owner);
  }
  std::erase_if(seen, [&](const SessionInfo& session) { return !owner.sees(session.owner); });
  return seen;
}

Result<bool> EngineLoop::has_session(const Owner& owner, const std::string& id) {
  return keeper_->sessions().ladder().contains(session_text(owner.name, id));
}

Result<int64_t> EngineLoop::erase_session(const Owner& owner, const std::string& id, bool and_branches) {
  const SessionRange range{session_text(owner.name, id), and_branches};
  SessionLadder& ladder = keeper_->sessions().ladder();
  const bool in_listener = std::this_thread::get_id() == thread_.get_id();
  if (in_listener) return ladder.erase_soon(range);
  return ladder.erase(range);
}

Result<StateBlob> EngineLoop::export_session(const Owner& owner, const std::string& id) {
  FULMAR_ASSIGN(const auto found, keeper_->sessions().ladder().read(session_text(owner.name, id)));
  if (!found) return Error{ErrorKind::not_found, "session '" + id + "' does not exist"};
  return *found;
}

// Far below the bound on the count in saved states, so that no imported session can outgrow that.
constexpr int64_t kMostImportedTokens = int64_t{1} << 52;

Status EngineLoop::import_session(const Owner& owner, const std::string& id, const StateBlob& blob) {
  if (id.size() > kMostSessionBytes) {
    return Error{ErrorKind::invalid, "the session's id has " + std::to_string(id.size()) +
                                         " bytes; wanted at most " + std::to_string(kMostSessionBytes)};
  }
  if (blob.tokens > kMostImportedTokens) {
    return Error{ErrorKind::invalid, "the state's 'tokens' is " + std::to_string(blob.tokens) +
                                         "; wanted at most " + std::to_string(kMostImportedTokens)};
  }
  const StateLayout layout = model_.state_layout();
  FULMAR_ASSIGN(std::vector<std::byte> payload, payload_for(blob, model_.fingerprint(), layout));
  FULMAR_TRY(check_finite(payload, layout));
  FULMAR_ASSIGN(const WriteTicket ticket,
                keeper_->sessions().ladder().import(session_text(owner.name, id), std::move(payload), layout,
                                                    blob.tokens, blob.adapter));
  if (!ticket) return {};
  ticket->wait(WriteStatus::under_way);  // waits on the caller's thread; the store's own time-outs bound it
  if (*ticket == WriteStatus::refused) return overtaken(id);
  return {};
}

Status EngineLoop::add_states(const std::map<std::string, StateNumbers>& states) {
  Status added = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] { added = keeper_->add_states(states); });
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

Result<std::shared_ptr<const DeviceAdapter>> EngineLoop::load_adapter(std::span<const HostDelta> deltas) {
  Result<std::shared_ptr<const DeviceAdapter>> loaded =
      Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] {
    Result<std::unique_ptr<DeviceAdapter>> made = model_.load_adapter(deltas);
    if (made.ok()) {
      loaded = std::shared_ptr<const DeviceAdapter>(std::move(made).value());
    } else {
      loaded = made.error();
    }
  });
  return loaded;
}

// Ends the engine: rows get their last events, and readable sessions are sent to the store while the process
// still runs. A second failure on the way ends only the part that it happens in.
void EngineLoop::fail(const char* who, const char* why, StatesOnDevice states) {
  spdlog::error("{}{}", who, why);
  if (std::exchange(failed_, true)) return;
  {
    std::lock_guard lock(mutex_);
    failure_ = "out of memory";  // fits without an allocation
  }
  guarded([&] {
    std::string text = std::string(who) + why;
    std::lock_guard lock(mutex_);
    failure_ = std::move(text);
  });
  guarded([&] { runner_.abandon(); });
  if (states == StatesOnDevice::readable) guarded([&] { keeper_->sessions().leave(); });
  guarded([&] { keeper_->sessions().abandon(); });
  guarded([&] { tell_all(); });
  untold_.clear();
  guarded([&] { end_failed_rows(); });
  guarded([&] { keeper_->sessions().ladder().flush(); });
  if (options_.on_failure) options_.on_failure(failure_);
}

// Ends running and waiting rows; turns on their way to a store continue.
void EngineLoop::end_failed_rows() {
  tell_all();
  end_ended();
  std::vector<SequencePtr> ended = std::exchange(running_, {});
  for (SequencePtr& row : waiting_.take_all()) ended.push_back(std::move(row));
  std::erase(ended, nullptr);  // the failure may have come while rows were being moved
  cancelled_.clear();
  for (SequencePtr& sequence : ended) {
    sequence->finish =
        Finish{.reason = FinishReason::failed, .error = Error{ErrorKind::unavailable, failure_}};
    keeper_->release(*sequence);
    end_row(std::move(sequence));
  }
  end_stored_rows();
  publish_stats();
  deliver();
  moved_ = false;
}

void EngineLoop::publish_stats() {
  const auto now = std::chrono::steady_clock::now();
  EngineStats stats = counters_;
  keeper_->add_to(stats);
  speculation_.add_to(stats);
  stats.slots_total = options_.slots;
  stats.slots_used = options_.slots - keeper_->free_slots();
  stats.rows_waiting = waiting_.rows();

  stats.slots.resize(static_cast<size_t>(options_.slots));
  for (size_t i = 0; i < stats.slots.size(); i++) stats.slots[i].id = static_cast<int64_t>(i);
  std::unordered_map<const RequestRecord*, size_t> index;
  const auto entry_of = [&](const RequestRecord& request) -> RequestStatus& {
    const auto [found, inserted] = index.emplace(&request, stats.requests.size());
    if (inserted) stats.requests.push_back(status_of(request));
    return stats.requests[found->second];
  };
  for (const SequencePtr& sequence : running_) {
    add_row(entry_of(*sequence->request), *sequence);
    (sequence->phase == Sequence::Phase::decode ? stats.rows_decode : stats.rows_prefill)++;
    const auto show_in = [&](int64_t place) {
      SlotStatus& slot = stats.slots[static_cast<size_t>(place)];
      slot.phase = phase_of(*sequence);
      slot.request_id = sequence->request->id;
      slot.owner = sequence->request->owner;
      slot.adapter = sequence->ask.adapter.label;
      slot.prompt_tokens = static_cast<int64_t>(sequence->ask.prompt.size());
      slot.generated_tokens = static_cast<int64_t>(sequence->drawn.size());
    };
    show_in(sequence->slot);
    for (const int64_t slot : sequence->more_slots) show_in(slot);
  }
  for (const SequencePtr& sequence : storing_) add_row(entry_of(*sequence->request), *sequence);
  waiting_.each_request(
      [&](const RequestRecord& request, const RequestStatus& sums) { add_waiting(entry_of(request), sums); });
  for (const auto& [id, paused] : paused_) {
    stats.paused.push_back(status_of(*paused.sequence->request));
    add_row(stats.paused.back(), *paused.sequence);
  }

  publish_at_ = std::max(now + kPublishEvery, now + kPublishShare * (std::chrono::steady_clock::now() - now));
  std::lock_guard lock(mutex_);
  stats.requests_waiting = queue_room_.all().requests;
  stats.requests_rejected = rejected_;
  stats.failure = failure_;
  stats_ = std::move(stats);
  published_prefill_ = prefill_speed_;
  published_decode_ = decode_speed_;
}

}  // namespace fulmar
