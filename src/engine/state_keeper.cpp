#include "engine/state_keeper.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "cache/session_name.h"
#include "engine/drawn_token.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

// Device slots for rewind points of stop texts; more are kept in host memory.
constexpr int64_t kRewindSlots = 16;
// A row waits for another one's prompt only if that saves at least this many tokens.
constexpr size_t kWorthFollowing = 32;

size_t shared_beginning(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t most = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<ptrdiff_t>(most);
  return static_cast<size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

// Returns the error of a row whose session does not exist. The server's own session names are not for
// clients.
Error no_such_session(const StateLink& link) {
  if (!link.server_named)
    return {ErrorKind::not_found, "session '" + session_id_of(link.read_session) + "' does not exist"};
  return {
      ErrorKind::not_found,
      "the state of the response that this one goes on from is not kept: it was lost with a server, or there "
      "was no room for it or no more (age, size); send the whole conversation instead"};
}

bool starts_afresh(const Ask& ask) { return ask.state.read_session.empty(); }

}  // namespace

Result<std::unique_ptr<StateKeeper>> StateKeeper::make(Model& model, const EngineOptions& options,
                                                       std::shared_ptr<SessionLadder> sessions) {
  const int64_t rewinds = std::min(options.slots, kRewindSlots);
  const int64_t total = options.slots + rewinds + options.device_sessions + options.prefix_slots;
  FULMAR_ASSIGN(StatePool pool, model.make_states(total));
  Shares shares;
  int64_t next = 0;
  const auto give = [&](std::vector<int64_t>& owner, int64_t count) {
    for (int64_t i = 0; i < count; i++) owner.push_back(next++);
    std::reverse(owner.begin(), owner.end());  // taken from the back: low numbers first
  };
  give(shares.sequences, options.slots);
  give(shares.rewinds, rewinds);
  give(shares.sessions, options.device_sessions);
  give(shares.prefixes, options.prefix_slots);
  return std::unique_ptr<StateKeeper>(
      new StateKeeper(std::move(pool), std::move(shares), options, std::move(sessions)));
}

StateKeeper::StateKeeper(StatePool pool, Shares shares, const EngineOptions& options,
                         std::shared_ptr<SessionLadder> sessions)
    : pool_(std::move(pool)),
      free_slots_(std::move(shares.sequences)),
      free_rewinds_(std::move(shares.rewinds)),
      prefixes_on_(options.prefix_slots > 0 || options.prefixes.host_bytes > 0),
      share_prefixes_(options.share_prefixes),
      piece_(static_cast<size_t>(options.prompt_piece)),
      sessions_(pool_, std::move(shares.sessions), std::move(sessions)),
      prefixes_(pool_, std::move(shares.prefixes), options.prefixes),
      store_patience_(sessions_.ladder().options().store_patience) {}

bool StateKeeper::ready_to_start(Sequence& sequence, std::span<const std::unique_ptr<Sequence>> running) {
  if (!session_ready(sequence)) return false;
  const Ask& ask = sequence.ask;
  if (!ask.use_prefix_cache || !prefixes_on_ || !starts_afresh(ask) || !ask.state.mixture.empty())
    return true;
  if (const auto leader = sequence.follows.lock()) {
    if (leader->fed < sequence.follows_until) return false;
    sequence.follows.reset();
    return true;
  }
  const size_t covered = prefixes_.look(prefix_root(sequence), ask.prompt).covered;
  for (const auto& other : running) {
    if (other->phase != Sequence::Phase::prefill || !other->cacheable) continue;
    if (prefix_root(*other) != prefix_root(sequence)) continue;
    const size_t shared = piece_end(
        std::min({shared_beginning(ask.prompt, other->feed), ask.prompt.size() - 1, other->feed.size() - 1}));
    if (shared < std::max(covered, other->fed + other->begun) + kWorthFollowing) continue;
    follow(sequence, *other, shared);
    return false;
  }
  return true;
}

PrefixRoot StateKeeper::prefix_root(const Sequence& sequence) const {
  return {sequence.ask.state.initial_state, share_prefixes_ ? std::string() : sequence.request->owner,
          sequence.ask.adapter.identity};
}

// Returns whether the row's session is ready. It is claimed before the lookup: nobody changes it in between.
bool StateKeeper::session_ready(Sequence& sequence) {
  const StateLink& link = sequence.ask.state;
  SessionHold& session = sequence.session;
  if (!link.write_session.empty() && (!session.claim || session.claim->erased)) {
    session.claim = sessions_.ladder().claim(link.write_session, sequence.request->owner);
    if (!session.claim) return false;
  }
  if (!link.read_session.empty() && !looked_up(session.reading, link.read_session, true)) return false;
  if (link.write_session.empty()) return true;
  if (link.write_session == link.read_session) session.writing = session.reading;
  return looked_up(session.writing, link.write_session, false);
}

bool StateKeeper::looked_up(std::shared_ptr<SessionLookup>& lookup, const std::string& id, bool with_state) {
  if (!lookup || (lookup->done && !sessions_.holds(*lookup))) lookup = sessions_.look_up(id, with_state);
  return lookup->done;
}

// Makes the running row save a snapshot after `shared` tokens, and the waiting one wait for it.
void StateKeeper::follow(Sequence& sequence, Sequence& leader, size_t shared) {
  auto& points = leader.snapshot_points;
  const auto place = std::lower_bound(points.begin(), points.end(), shared);
  if (place == points.end() || *place != shared) points.insert(place, shared);
  if (!leader.progress) leader.progress = std::make_shared<PrefillProgress>(PrefillProgress{leader.fed});
  sequence.follows = leader.progress;
  sequence.follows_until = shared;
}

Status StateKeeper::start(Sequence& sequence) {
  sequence.slot = take_slot();
  if (!sequence.ask.state.mixture.empty()) return start_mixture(sequence);
  FULMAR_ASSIGN(const bool continued, start_from_session(sequence));
  SessionHold& session = sequence.session;
  if (session.writing) session.turn = sessions_.newest_turn(*session.writing);
  session.reading = session.writing = nullptr;
  return continued ? Status() : start_fresh(sequence);
}

int64_t StateKeeper::take_slot() {
  const int64_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

Result<bool> StateKeeper::start_from_session(Sequence& sequence) {
  const StateLink& link = sequence.ask.state;
  if (link.read_session.empty()) return false;
  FULMAR_ASSIGN(const auto restored,
                sessions_.restore(*sequence.session.reading, sequence.slot, sequence.ask.adapter.identity));
  if (!restored) {
    if (link.must_exist) return no_such_session(link);
    return false;
  }
  switch (restored->level) {
    case SessionInfo::Level::device:
      hits_device_++;
      break;
    case SessionInfo::Level::host:
      hits_host_++;
      break;
    case SessionInfo::Level::store:
      hits_store_++;
      break;
  }
  sequence.tokens_before = restored->tokens;
  sequence.feed = link.continuing.empty() ? sequence.ask.prompt : link.continuing;
  sequence.usage.prompt_tokens = static_cast<int64_t>(sequence.feed.size());
  return true;
}

Status StateKeeper::start_fresh(Sequence& sequence) {
  const Ask& ask = sequence.ask;
  sequence.feed = ask.prompt;
  sequence.usage.prompt_tokens = static_cast<int64_t>(ask.prompt.size());
  const bool every_row = ask.score_prompt || ask.embed;  // nothing may be skipped, and pieces differ
  sequence.cacheable = prefixes_on_ && ask.use_prefix_cache && !(every_row && piece_ > 0);
  if (sequence.cacheable && !every_row) {
    const auto known = prefixes_.look(prefix_root(sequence), sequence.feed);
    sequence.fed = prefixes_.restore(prefix_root(sequence), sequence.feed, sequence.slot);
    sequence.usage.cached_tokens = static_cast<int64_t>(sequence.fed);
    sequence.snapshot_points = snapshot_points(sequence.feed.size(), sequence.fed, known.shared);
    keep_piece_ends(sequence);
    if (sequence.fed > 0) return {};
  }
  return set_first_state(sequence.slot, ask.state.initial_state);
}

void StateKeeper::keep_piece_ends(Sequence& sequence) const {
  auto& points = sequence.snapshot_points;
  for (size_t& point : points) point = piece_end(point);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  std::erase_if(points, [&](size_t point) { return point <= sequence.fed; });
}

// Starts a mixture. Nothing of it is cached: its prompt has as many states as members.
Status StateKeeper::start_mixture(Sequence& sequence) {
  sequence.feed = sequence.ask.prompt;
  sequence.usage.prompt_tokens = static_cast<int64_t>(sequence.feed.size());
  const std::vector<MixtureMember>& members = sequence.ask.state.mixture;
  FULMAR_TRY(set_first_state(sequence.slot, members.front().state));
  for (size_t i = 1; i < members.size(); i++) {
    sequence.more_slots.push_back(take_slot());
    FULMAR_TRY(set_first_state(sequence.more_slots.back(), members[i].state));
  }
  return {};
}

// Sets a slot's first state. `tuned`: name of a tuned state; empty: the zero state.
Status StateKeeper::set_first_state(int64_t slot, const std::string& tuned) {
  if (tuned.empty()) {
    pool_.zero(slot);
    return {};
  }
  const auto found = tuned_.find(tuned);
  if (found == tuned_.end()) {
    return Error{ErrorKind::not_found, "tuned state '" + tuned + "' is not loaded"};
  }
  return pool_.set(slot, found->second);
}

int64_t StateKeeper::until_snapshot(const Sequence& sequence) const {
  if (sequence.snapshot_points.empty()) return 0;
  return static_cast<int64_t>(sequence.snapshot_points.front() - sequence.fed - sequence.begun);
}

void StateKeeper::after_feed(Sequence& sequence) {
  auto& points = sequence.snapshot_points;
  if (!points.empty() && points.front() <= sequence.fed) {
    const auto prefix = std::span<const int32_t>(sequence.feed).first(sequence.fed);
    prefixes_.save(prefix_root(sequence), prefix, sequence.slot);
    points.erase(points.begin());
  }
  if (sequence.progress) sequence.progress->fed = sequence.fed;
  if (sequence.phase != Sequence::Phase::prefill || sequence.fed == sequence.feed.size())
    sequence.progress.reset();
}

void StateKeeper::after_draw(Sequence& sequence) {
  if (sequence.ask.state.write_session.empty() || sequence.finish) return;
  const auto pending = sequence.output.pending_token();
  if (!pending) {
    drop_rewind_point(sequence);
  } else if (!sequence.rewind_point) {
    // The token that may begin a match must not be in the state; drafts may have fed it already.
    if (sequence.drawn_fed > *pending) roll_back(sequence, *pending);
    take_rewind_point(sequence);
  }
}

void StateKeeper::roll_back(Sequence& sequence, size_t drawn) {
  pool_.roll_back(sequence.slot, static_cast<int64_t>(sequence.drawn_fed - drawn));
  sequence.drawn_fed = drawn;
}

// Writes a slot's pending rows to its state before it is copied, in the mode in which bits
// must not depend on where copies are made: an f16 state is rounded where it is written,
// and when it is read with pending rows.
void StateKeeper::settle(int64_t slot) {
  const bool rounds = pool_.layout().wkv_dtype == DType::f16 && pool_.ring().write_every > 1;
  if (piece_ > 0 && rounds) pool_.write(slot, pool_.read(slot));
}

void StateKeeper::take_rewind_point(Sequence& sequence) {
  settle(sequence.slot);
  RewindPoint point{.drawn_fed = sequence.drawn_fed};
  if (!free_rewinds_.empty()) {
    point.slot = free_rewinds_.back();
    free_rewinds_.pop_back();
    pool_.copy(sequence.slot, point.slot);
  } else {
    point.host = pool_.read(sequence.slot);
  }
  sequence.rewind_point = std::move(point);
}

void StateKeeper::drop_rewind_point(Sequence& sequence) {
  if (!sequence.rewind_point) return;
  if (sequence.rewind_point->slot >= 0) free_rewinds_.push_back(sequence.rewind_point->slot);
  sequence.rewind_point.reset();
}

// Restores the slot from its rewind point.
void StateKeeper::rewind(Sequence& sequence) {
  const RewindPoint& point = *sequence.rewind_point;
  if (point.slot >= 0) {
    pool_.copy(point.slot, sequence.slot);
  } else {
    pool_.write(sequence.slot, point.host);
  }
  sequence.drawn_fed = point.drawn_fed;
  drop_rewind_point(sequence);
}

Closing StateKeeper::close(Sequence& sequence) {
  const StateLink& link = sequence.ask.state;
  const FinishReason reason = sequence.finish->reason;
  const bool ended_well = !is_cut(reason) && reason != FinishReason::failed;
  const bool kept = link.keep_on_cancel && is_cut(reason) && reason != FinishReason::paused;
  const bool fed_all = sequence.fed == sequence.feed.size();
  const SessionClaimPtr& claim = sequence.session.claim;
  const bool commits = claim && !claim->erased && fed_all && (ended_well || kept);
  if (commits) {
    const size_t wanted = tokens_to_commit(sequence);
    if (sequence.drawn_fed > wanted && sequence.rewind_point) rewind(sequence);
    if (sequence.drawn_fed > wanted) roll_back(sequence, wanted);  // the stop text was drafted as a whole
    sequence.drawn.resize(wanted);
    if (sequence.drawn_fed < wanted) {
      sequence.phase = Sequence::Phase::closing;
      return Closing::feeding;
    }
    settle(sequence.slot);
    const auto fed = static_cast<int64_t>(sequence.feed.size() + sequence.drawn_fed);
    auto ticket = sessions_.commit(
        *sequence.session.claim, sequence.slot,
        {sequence.tokens_before + fed, sequence.session.turn + 1, sequence.ask.adapter.identity});
    if (ticket.ok()) {
      sequence.session.ticket = std::move(*ticket);
      sequence.finish->wrote_session = true;
    } else {
      sequence.finish = Finish{.reason = FinishReason::failed, .error = ticket.error()};
    }
  } else if (piece_ == 0 && sequence.cacheable && ended_well && fed_all && sequence.drawn_fed > 0) {
    // The end of the answer, where the next turn of a client that resends its history begins.
    std::vector<int32_t> tokens = sequence.feed;
    tokens.insert(tokens.end(), sequence.drawn.begin(),
                  sequence.drawn.begin() + static_cast<ptrdiff_t>(sequence.drawn_fed));
    prefixes_.save(prefix_root(sequence), tokens, sequence.slot);
  }
  if (sequence.session.ticket) {
    sequence.session.waits_until = Clock::now() + store_patience_;
    release_slot(sequence);
    return Closing::storing;
  }
  release(sequence);
  return Closing::done;
}

bool StateKeeper::may_end(Sequence& sequence) {
  const std::string& session = sequence.ask.state.write_session;
  const WriteStatus fate = *sequence.session.ticket;
  const bool in_time = Clock::now() < sequence.session.waits_until;
  if (fate == WriteStatus::under_way && in_time) return false;
  if (fate == WriteStatus::refused) {
    sequence.finish = Finish{.reason = FinishReason::failed, .error = overtaken(session)};
  } else if (fate != WriteStatus::stored) {
    unconfirmed_++;
    if (fate == WriteStatus::under_way) {
      spdlog::error("session '{}': its turn is not in the store after {} ms and is answered all the same",
                    session_id_of(session), store_patience_.count());
    }
  }
  release(sequence);
  return true;
}

void StateKeeper::release(Sequence& sequence) {
  release_slot(sequence);
  sessions_.ladder().release(std::exchange(sequence.session.claim, nullptr));
}

void StateKeeper::release_slot(Sequence& sequence) {
  sequence.progress.reset();
  if (sequence.slot < 0) return;
  drop_rewind_point(sequence);
  free_slots_.push_back(std::exchange(sequence.slot, -1));
  for (const int64_t slot : std::exchange(sequence.more_slots, {})) free_slots_.push_back(slot);
}

std::vector<std::byte> StateKeeper::take_out(Sequence& sequence) {
  std::vector<std::byte> state = pool_.read(sequence.slot);
  if (sequence.rewind_point && sequence.rewind_point->slot >= 0) {
    RewindPoint kept{.drawn_fed = sequence.rewind_point->drawn_fed,
                     .host = pool_.read(sequence.rewind_point->slot)};
    drop_rewind_point(sequence);
    sequence.rewind_point = std::move(kept);
  }
  return state;
}

Status StateKeeper::put_back(Sequence& sequence, std::span<const std::byte> state, SessionClaimPtr claim) {
  if (free_slots_.empty()) return Error{ErrorKind::unavailable, "no free slot to resume into; try again"};
  if (!claim) sequence.ask.state.write_session.clear();
  sequence.session.claim = std::move(claim);
  sequence.slot = take_slot();
  return pool_.set(sequence.slot, state);
}

Status StateKeeper::add_states(const std::map<std::string, Engine::StateNumbers>& states) {
  if (free_slots_.empty())
    return Error{ErrorKind::unavailable, "no free slot to prepare the state in; try again"};
  const int64_t slot = free_slots_.back();
  decltype(tuned_) prepared;
  for (const auto& [name, wkv] : states) {
    FULMAR_TRY(pool_.set_initial(slot, wkv));
    prepared[name] = pool_.read(slot);
  }
  for (const auto& [name, state] : prepared) prefixes_.clear(name);
  prepared.merge(tuned_);  // of equal names the new ones stay
  tuned_ = std::move(prepared);
  return {};
}

bool StateKeeper::remove_state(const std::string& name) {
  prefixes_.clear(name);
  return tuned_.erase(name) > 0;
}

std::vector<std::string> StateKeeper::states() const {
  std::vector<std::string> names;
  for (const auto& [name, state] : tuned_) names.push_back(name);
  return names;
}

void StateKeeper::add_to(EngineStats& stats) {
  store_failures_ += sessions_.take_store_failures();
  stats.device_sessions = sessions_.count();
  stats.host_sessions = sessions_.host_count();
  stats.session_hits_device = hits_device_;
  stats.session_hits_host = hits_host_;
  stats.session_hits_store = hits_store_;
  stats.session_store_failures = store_failures_;
  stats.session_turns_unconfirmed = unconfirmed_;
  stats.prefixes = prefixes_.counters();
}

}  // namespace fulmar
