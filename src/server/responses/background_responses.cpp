// Applies events to background responses, one after another.
#include "server/responses/background_responses.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "server/core/owner.h"

namespace fulmar {
namespace {

bool is_begun(const JobState& state) {
  return state.phase == JobState::Phase::taken_up || state.phase == JobState::Phase::runs;
}

}  // namespace

BackgroundResponses::Entries::iterator BackgroundResponses::entry_of(const std::string& id) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const RunningResponse& entry) { return entry.id == id; });
}

BackgroundResponses::Entries::const_iterator BackgroundResponses::entry_of(const std::string& id) const {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const RunningResponse& entry) { return entry.id == id; });
}

void BackgroundResponses::wait(const std::string& id, const std::string& owner, int64_t attempts) {
  std::lock_guard lock(mutex_);
  entries_.push_back({.id = id, .owner = owner, .attempts = attempts});
}

BackgroundResponses::Start BackgroundResponses::start(const std::string& id, const std::string& owner,
                                                      ServedModelPtr model, Pending pending) {
  std::lock_guard lock(mutex_);
  const auto own = std::count_if(entries_.begin(), entries_.end(),
                                 [&](const RunningResponse& entry) { return entry.owner == owner; });
  if (static_cast<size_t>(own) >= kMostOfOwner) return Start::owner_has_many;
  if (entries_.size() >= kMost) return Start::all_have_many;
  entries_.push_back({.id = id,
                      .owner = owner,
                      .state = next_step({}, JobEvent::take_up).next,
                      .attempts = 1,
                      .model = std::move(model),
                      .pending = std::move(pending)});
  return Start::begun;
}

std::optional<int64_t> BackgroundResponses::take_up(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto is_suspect = [](const RunningResponse& entry, int64_t more) {
    return entry.attempts + more >= kMostAttempts;
  };
  const auto entry = entry_of(id);
  if (entry == entries_.end() || entry->state.phase != JobState::Phase::waits) return std::nullopt;
  if (is_suspect(*entry, 1) &&
      std::any_of(entries_.begin(), entries_.end(), [&](const RunningResponse& other) {
        return is_begun(other.state) && is_suspect(other, 0);
      })) {
    return std::nullopt;
  }
  entry->state = next_step(entry->state, JobEvent::take_up).next;
  return ++entry->attempts;
}

void BackgroundResponses::show(const std::string& id, ServedModelPtr model, Pending pending) {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  if (entry == entries_.end()) return;
  entry->model = std::move(model);
  entry->pending = std::move(pending);
}

void BackgroundResponses::put_back(const std::string& id, std::optional<StoredResponse> cancelled) {
  happen(id, JobEvent::put_back, std::move(cancelled));
}

void BackgroundResponses::end(const std::string& id, std::optional<StoredResponse> answer, bool cut) {
  happen(id, cut ? JobEvent::cut : JobEvent::answer, std::move(answer));
}

void BackgroundResponses::happen(const std::string& id, JobEvent event,
                                 std::optional<StoredResponse> answer) {
  RunningResponse gone;  // is let go of outside the lock
  ServedModelPtr cancelled;
  std::string json;
  {
    std::lock_guard lock(mutex_);
    const auto entry = entry_of(id);
    if (entry == entries_.end()) return;
    const JobStep step = next_step(entry->state, event);
    if (step.stores_answer && answer) {
      json = answer->json;
      answers_.put(std::move(*answer));
    }
    if (step.uncounts) answers_.note_attempts(id, --entry->attempts);
    if (step.cancels_row) cancelled = entry->model;
    entry->state = step.next;
    if (!is_begun(step.next)) {
      gone.model.swap(entry->model);
      gone.pending.swap(entry->pending);
    }
    if (step.next.phase == JobState::Phase::over) {
      gone.then.swap(entry->then);
      entries_.erase(entry);
    }
  }
  if (cancelled) cancelled->engine->cancel(server_itself(), id);
  for (const Then& then : gone.then) {
    try {
      then(json.empty() ? nullptr : &json);
    } catch (const std::exception& failure) {
      spdlog::error("end of a response not told id={} reason=\"{}\"", id, failure.what());
    }
  }
}

void BackgroundResponses::interrupt_all() {
  std::vector<std::string> ids;
  {
    std::lock_guard lock(mutex_);
    for (const RunningResponse& entry : entries_) ids.push_back(entry.id);
  }
  for (const std::string& id : ids) happen(id, JobEvent::interrupt);
}

std::vector<std::string> BackgroundResponses::waiting() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const RunningResponse& entry : entries_) {
    if (entry.state.phase == JobState::Phase::waits) ids.push_back(entry.id);
  }
  return ids;
}

int64_t BackgroundResponses::begun() const {
  std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(),
                       [](const RunningResponse& entry) { return is_begun(entry.state); });
}

bool BackgroundResponses::any_waits() const {
  std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [](const RunningResponse& entry) {
    return entry.state.phase == JobState::Phase::waits;
  });
}

std::optional<BackgroundResponses::Look> BackgroundResponses::look(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  if (entry == entries_.end()) return std::nullopt;
  return Look{entry->state, entry->pending};
}

bool BackgroundResponses::when_over(const std::string& id, Then then) {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  if (entry == entries_.end() || entry->state.wish == JobState::Wish::deleted) return false;
  entry->then.push_back(std::move(then));
  return true;
}

}  // namespace fulmar
