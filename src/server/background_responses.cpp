#include "server/background_responses.h"

#include <algorithm>
#include <exception>

#include "base/log.h"
#include "server/owner.h"

namespace fulmar {
namespace {

class GatheringListener : public Listener {
 public:
  GatheringListener(std::unique_ptr<Writer> writer, std::optional<ReasoningMode> split, GatheringEnds ends,
                    KeyShare share)
      : writer_(std::move(writer)), ends_(std::move(ends)), share_(std::move(share)) {
    if (split) splitter_.emplace(*split);
  }

  // The engine's thread serves others, too: what fails here ends this response alone.
  void deliver(std::vector<Event> events) override {
    try {
      for (Event& event : events) {
        if (over_) continue;
        if (event.kind == Event::Kind::admitted) {
          ends_.admitted();
          continue;
        }
        take(event);
        if (event.kind == Event::Kind::finished) end(event);
      }
    } catch (const std::exception& failure) {
      spdlog::error("response in the background failed reason=\"{}\"", failure.what());
      over_ = true;
      ends_.done(writer_->write_failure({500, "the answer could not be written", {}, {}, {}}), false);
    }
  }

 private:
  void add(const SplitText& text) {
    choice_.reasoning += text.reasoning;
    choice_.content += text.content;
  }

  void take(const Event& event) {
    if (share_.account && event.sampled > 0) share_.account->charge_generated(event.sampled, event.at);
    if (!splitter_) {
      choice_.content += event.text;
      return;
    }
    if (splitter_->thinking()) totals_.reasoning_tokens += event.sampled;
    add(splitter_->feed(event.text));
  }

  void end(Event& event) {
    over_ = true;
    share_.rows = RowLease();
    if (event.reason == FinishReason::failed) {
      const Error error = event.error.value_or(Error{ErrorKind::internal, "generation failed"});
      return ends_.done(writer_->write_failure(api_error(error)), false);
    }
    if (splitter_) add(splitter_->finish());
    choice_.ending = {event.reason, event.stop_id, std::move(event.stop_text)};
    choice_.usage = event.usage;
    totals_.prompt_tokens = event.usage.prompt_tokens;
    totals_.completion_tokens = event.usage.completion_tokens;
    totals_.cached_tokens = event.usage.cached_tokens;
    const bool cancelled = event.reason == FinishReason::cancelled;
    std::vector<Choice> choices;
    choices.push_back(std::move(choice_));
    ends_.done(writer_->write_whole(std::move(choices), totals_), cancelled);
  }

  const std::unique_ptr<Writer> writer_;
  const GatheringEnds ends_;
  KeyShare share_;
  std::optional<ReasoningSplitter> splitter_;
  Choice choice_;
  Totals totals_;
  bool over_ = false;
};

}  // namespace

BackgroundResponses::Entries::iterator BackgroundResponses::entry_of(const std::string& id) {
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.id == id; });
}

BackgroundResponses::Entries::const_iterator BackgroundResponses::entry_of(const std::string& id) const {
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.id == id; });
}

std::optional<BackgroundResponses::Entry> BackgroundResponses::remove(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  if (entry == entries_.end()) return std::nullopt;
  std::optional<Entry> gone(std::move(*entry));
  entries_.erase(entry);
  return gone;
}

void BackgroundResponses::wait(const std::string& id, const std::string& owner) {
  std::lock_guard lock(mutex_);
  entries_.push_back({.id = id, .owner = owner});
}

BackgroundResponses::Start BackgroundResponses::start(const std::string& id, const std::string& owner,
                                                      ServedModelPtr model, Pending pending) {
  std::lock_guard lock(mutex_);
  const auto own = std::count_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& entry) { return entry.owner == owner; });
  if (static_cast<size_t>(own) >= kMostOfOwner) return Start::owner_has_many;
  if (entries_.size() >= kMost) return Start::all_have_many;
  entries_.push_back({.id = id,
                      .owner = owner,
                      .stage = Stage::runs,
                      .model = std::move(model),
                      .pending = std::move(pending)});
  return Start::begun;
}

bool BackgroundResponses::begin(const std::string& id, ServedModelPtr model, Pending pending) {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  if (entry == entries_.end() || entry->stage != Stage::waits || entry->cancelled) return false;
  entry->stage = Stage::runs;
  entry->model = std::move(model);
  entry->pending = std::move(pending);
  return true;
}

bool BackgroundResponses::put_back(const std::string& id) {
  ServedModelPtr model;  // these are let go of outside the lock
  Pending pending;
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  if (entry == entries_.end()) return false;
  entry->stage = Stage::waits;
  model = std::move(entry->model);
  pending = std::exchange(entry->pending, nullptr);
  return !entry->cancelled;
}

bool BackgroundResponses::finish(const std::string& id, const std::string& json) {
  const std::optional<Entry> over = remove(id);
  if (!over) return false;
  for (const Then& then : over->waiting) then(&json);
  return true;
}

void BackgroundResponses::forget(const std::string& id) {
  const std::optional<Entry> gone = remove(id);
  if (!gone) return;
  for (const Then& then : gone->waiting) then(nullptr);
}

BackgroundResponses::Stage BackgroundResponses::cancel(const std::string& id) {
  ServedModelPtr model;
  Stage stage = Stage::unknown;
  {
    std::lock_guard lock(mutex_);
    const auto entry = entry_of(id);
    if (entry == entries_.end()) return stage;
    stage = entry->cancelled ? Stage::runs : entry->stage;
    entry->cancelled = true;
    model = entry->model;
  }
  if (model)
    model->engine->cancel(server_itself(),
                          id);  // where it has no such row yet, whoever hands it over asks wanted()
  return stage;
}

void BackgroundResponses::interrupt_all() {
  std::vector<std::pair<std::string, ServedModelPtr>> running;
  {
    std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.stage != Stage::runs) continue;
      entry.interrupted = !entry.cancelled;
      running.emplace_back(entry.id, entry.model);
    }
  }
  for (const auto& [id, model] : running) model->engine->cancel(server_itself(), id);
}

bool BackgroundResponses::wanted(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  return entry != entries_.end() && !entry->cancelled;
}

bool BackgroundResponses::interrupted(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  return entry != entries_.end() && entry->interrupted;
}

std::optional<std::string> BackgroundResponses::find(const std::string& id) const {
  Pending pending;
  {
    std::lock_guard lock(mutex_);
    const auto entry = entry_of(id);
    if (entry == entries_.end() || entry->stage != Stage::runs) return std::nullopt;
    pending = entry->pending;
  }
  return pending();
}

BackgroundResponses::Stage BackgroundResponses::stage(const std::string& id) const {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  return entry == entries_.end() ? Stage::unknown : entry->stage;
}

bool BackgroundResponses::when_over(const std::string& id, Then then) {
  std::lock_guard lock(mutex_);
  const auto entry = entry_of(id);
  if (entry == entries_.end()) return false;
  entry->waiting.push_back(std::move(then));
  return true;
}

std::shared_ptr<Listener> gathering_listener(std::unique_ptr<Writer> writer,
                                             std::optional<ReasoningMode> split, GatheringEnds ends,
                                             KeyShare share) {
  return std::make_shared<GatheringListener>(std::move(writer), split, std::move(ends), std::move(share));
}

}  // namespace fulmar
