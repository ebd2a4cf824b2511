// A row on the engine's thread: admitted to a slot, its drawn tokens taken and told,
// ended, its events delivered.
#include <algorithm>

#include "engine/drawn_token.h"
#include "engine/engine_loop.h"
#include "engine/next_token.h"
#include "engine/plan_limits.h"
#include "engine/request_status.h"

namespace fulmar {

void EngineLoop::tell(Sequence& sequence, const SampledToken& drawn) {
  Event event{.kind = Event::Kind::text, .index = sequence.ask.index, .sampled = 1};
  event.text = tell_token(sequence, drawn, tokenizer_);
  event.tokens = sequence.output.take_records();
  if (!sequence.finish || !event.text.empty() || !event.tokens.empty()) emit(sequence, std::move(event));
}

void EngineLoop::tell_all() {
  for (const Untold& untold : untold_) tell(*untold.sequence, untold.drawn);
  untold_.clear();
}

void EngineLoop::obey_cancels() {
  if (cancelled_.empty()) return;
  std::vector<SequencePtr> ended;
  for (const auto& request : std::exchange(cancelled_, {})) {
    for (SequencePtr& row : waiting_.take(*request)) ended.push_back(std::move(row));
  }
  for (SequencePtr& sequence : ended) {
    sequence->finish = Finish{.reason = sequence->request->cut_as};
    keeper_->release(*sequence);
    end_row(std::move(sequence));
  }
  bool any = false;
  for (auto& sequence : running_) {
    if (!sequence->request->cancel_requested || sequence->finish) continue;
    if (sequence->under_way) {
      cancelled_.push_back(sequence->request);  // once its step is over
      continue;
    }
    tell_all();
    sequence->finish = Finish{.reason = sequence->request->cut_as};
    any = true;
  }
  if (any) end_rows();
}

// Admits rows in the order in which WaitingRows offers them. A row that has to wait for another one does not
// hold up those after it, nor does a long prompt when enough of them run.
void EngineLoop::admit() {
  using Offer = WaitingRows::Offer;
  if (waiting_.empty() || keeper_->free_slots() == 0) return;
  const auto feeds_long = [&](const SequencePtr& row) {
    return row->phase == Sequence::Phase::prefill && is_long_prompt(row->ready().size(), limits_);
  };
  int64_t may_be_long =
      most_long_prompts(options_.slots) - std::count_if(running_.begin(), running_.end(), feeds_long);
  waiting_.offer([&](SequencePtr& waiting) {
    const auto slots = std::max<int64_t>(1, static_cast<int64_t>(waiting->ask.state.mixture.size()));
    if (keeper_->free_slots() < slots) return Offer::closed;
    const bool is_long = is_long_prompt(waiting->ask.prompt.size(), limits_);
    if (is_long && may_be_long <= 0) return Offer::passed;
    if (!keeper_->ready_to_start(*waiting, running_)) return Offer::passed;
    const bool started = start_row(*waiting);
    if (is_long && started) may_be_long--;
    (started ? running_ : ended_).push_back(std::move(waiting));
    return Offer::taken;
  });
  end_ended();
}

// Gives the row a slot and its first state. Returns false when it cannot run; then `finish` has the reason.
bool EngineLoop::start_row(Sequence& sequence) {
  moved_ = true;
  leave_queue(sequence);
  sequence.request->rows_admitted++;
  if (const Status started = keeper_->start(sequence); !started.ok()) {
    sequence.finish = Finish{.reason = FinishReason::failed, .error = started.error()};
    keeper_->release(sequence);
    return false;
  }
  counters_.cached_tokens += sequence.usage.cached_tokens;
  emit(sequence, {.kind = Event::Kind::admitted, .index = sequence.ask.index});
  return true;
}

// Counts the row as no longer waiting and, with its first row, the request.
void EngineLoop::leave_queue(Sequence& sequence) {
  QueueUse use{.bytes = std::exchange(sequence.waiting_bytes, 0)};
  if (use.bytes > 0) use.rows = 1;
  if (std::exchange(sequence.request->in_queue, false)) use.requests = 1;
  if (use != QueueUse{}) queue_room_.give_back(sequence.request->owner, use);
}

void EngineLoop::take_outcome(RunningStep::Outcome outcome) {
  int64_t drawn = 0;
  for (size_t i = 0; i < outcome.parts.size(); i++) {
    Sequence& sequence = *outcome.parts[i].sequence;
    keeper_->after_feed(sequence);
    if (!outcome.drawn[i].empty()) {
      drawn += take_drawn(outcome.parts[i], std::move(outcome.drawn[i]));
    } else if (sequence.phase == Sequence::Phase::prefill && sequence.fed == sequence.feed.size()) {
      sequence.finish = Finish{.reason = FinishReason::length};  // max_tokens 0: only the prompt was wanted
    }
  }
  counters_.generated_tokens += drawn;
  decode_speed_.add(drawn, std::chrono::steady_clock::now());
  end_rows();
}

// Takes tokens up to the one that ends the row, rolls its state back to the row that has drawn the last of
// them, then takes forced tokens. Returns how many in all.
int64_t EngineLoop::take_drawn(const StepPart& part, std::vector<SampledToken> drawn) {
  Sequence& sequence = *part.sequence;
  sequence.phase = Sequence::Phase::decode;
  size_t taken = 0;
  while (taken < drawn.size() && !sequence.finish) take(sequence, drawn[taken++], drawn.size() > 1);
  const size_t kept = sequence.drawn_fed + taken - 1;
  sequence.drawn_fed += static_cast<size_t>(part.drafts);
  if (sequence.drawn_fed > kept) keeper_->roll_back(sequence, kept);
  speculation_.learn(sequence, part.drafts, std::span(drawn).first(taken));
  const int64_t forwarded = fast_forward(sequence);
  keeper_->after_draw(sequence);
  return static_cast<int64_t>(taken) + forwarded;
}

// Takes one token. `among_others`: tokens of one step are told in order, before one of them may end the row.
void EngineLoop::take(Sequence& sequence, const SampledToken& token, bool among_others) {
  take_token(sequence, token);
  const bool others_follow = forwards_ && forwarded_token(sequence);
  if (sequence.finish || text_decides(sequence) || among_others || others_follow) {
    tell(sequence, token);
  } else {
    untold_.push_back({&sequence, token});
  }
}

// Takes tokens that the row's mask forces, as many as its next step feeds after the drawn one; returns how
// many.
int64_t EngineLoop::fast_forward(Sequence& sequence) {
  if (!forwards_) return 0;
  int64_t taken = 0;
  for (; taken < kMostForwarded; taken++) {
    const auto token = forwarded_token(sequence);
    if (!token) break;
    take(sequence, {.token = *token}, true);
  }
  counters_.forwarded_tokens += taken;
  return taken;
}

// Ends rows that have finished, unless their session still needs tokens fed.
void EngineLoop::end_rows() {
  for (auto& sequence : running_) {
    if (!sequence->finish) continue;
    if (runner_.forget(*sequence)) keeper_->was_not_fed(*sequence);
    switch (keeper_->close(*sequence)) {
      case Closing::feeding:
        break;
      case Closing::storing:
        storing_.push_back(std::move(sequence));
        break;
      case Closing::done:
        ended_.push_back(std::move(sequence));
        break;
    }
  }
  std::erase(running_, nullptr);
  end_ended();
}

void EngineLoop::end_ended() {
  for (SequencePtr& sequence : std::exchange(ended_, {})) end_row(std::move(sequence));
}

// Ends rows whose turns the store has answered: an answer is complete once its turn cannot be lost.
void EngineLoop::end_stored_rows() {
  for (auto& sequence : storing_) {
    if (keeper_->may_end(*sequence)) end_row(std::move(sequence));
  }
  std::erase(storing_, nullptr);
}

// Sends the last event of a row that has no slot any more.
void EngineLoop::end_row(SequencePtr sequence) {
  moved_ = true;
  RequestRecord& request = *sequence->request;
  leave_queue(*sequence);
  speculation_.leave(*sequence);
  add_row(request.ended_rows, *sequence);
  Event event = finished_event(*sequence, tokenizer_);
  const FinishReason reason = event.reason;
  emit(*sequence, std::move(event));
  request_row_ended(request, reason);
}

void EngineLoop::request_row_ended(RequestRecord& request, FinishReason reason) {
  if (--request.rows_remaining > 0) return;
  const bool cancelled = reason == FinishReason::cancelled || reason == FinishReason::stopping;
  (cancelled ? counters_.requests_cancelled : counters_.requests_completed)++;
  counters_.last_finished = status_of(request);
  std::lock_guard lock(mutex_);
  known_.erase(request.id);
}

void EngineLoop::emit(Sequence& sequence, Event event) {
  event.at = std::chrono::steady_clock::now();
  RequestRecord& request = *sequence.request;
  if (request.outbox.empty()) to_deliver_.push_back(sequence.request);
  request.outbox.push_back(std::move(event));
}

void EngineLoop::deliver() {
  for (const auto& request : to_deliver_) {
    request->listener->deliver(std::exchange(request->outbox, {}));
    // A paused row keeps its request, but not the listener, which holds the model that the engine belongs to.
    if (request->rows_remaining == 0) request->listener.reset();
  }
  to_deliver_.clear();
}

}  // namespace fulmar
