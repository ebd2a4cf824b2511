#include "engine/engine_loop.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>

#include "base/unix_time.h"
#include "engine/plan.h"
#include "engine/request_status.h"
#include "engine/settle.h"
#include "text/tokenizer.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

// Status pages may be this old while rows run.
constexpr auto kPublishEvery = std::chrono::milliseconds(20);

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::start(Model& model, Ops& ops, const Tokenizer& tokenizer,
                                              const EngineOptions& options,
                                              std::unique_ptr<SessionStore> store) {
  if (options.slots < 1) {
    return Error{ErrorKind::invalid, "slots is " + std::to_string(options.slots) + "; wanted at least 1"};
  }
  FULMAR_ASSIGN(auto keeper, StateKeeper::make(model, ops, options, std::move(store)));
  return std::unique_ptr<Engine>(
      std::make_unique<EngineLoop>(model, ops, tokenizer, options, std::move(keeper)));
}

EngineLoop::EngineLoop(Model& model, Ops& ops, const Tokenizer& tokenizer, const EngineOptions& options,
                       std::unique_ptr<StateKeeper> keeper)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      keeper_(std::move(keeper)),
      runner_(model, ops) {
  counters_.start_time = unix_seconds();
  publish_stats();
  keeper_->sessions().on_news([this] { commands_.wake(); });
  thread_ = std::thread([this] { run(); });
}

EngineLoop::~EngineLoop() {
  stopping_ = true;
  commands_.close();
  thread_.join();
}

// ---- doors
// --------------------------------------------------------------------------------------------------------

Status EngineLoop::check(const Ask& ask) const {
  const int64_t vocabulary = model_.config().vocab;
  if (ask.prompt.empty()) return Error{ErrorKind::invalid, "the prompt has no tokens; wanted at least 1"};
  if (ask.max_tokens < 0) {
    return Error{ErrorKind::invalid,
                 "max_tokens is " + std::to_string(ask.max_tokens) + "; wanted 0 or more"};
  }
  for (const std::vector<int32_t>* tokens : {&ask.prompt, &ask.state.continuing}) {
    for (const int32_t token : *tokens) {
      if (token < 0 || token >= vocabulary) {
        return Error{ErrorKind::invalid, "the prompt has token id " + std::to_string(token) +
                                             "; wanted 0 to " + std::to_string(vocabulary - 1)};
      }
    }
  }
  FULMAR_TRY(check_mixture(ask));
  for (const auto& [token, bias] : ask.sampling.logit_bias) {
    if (token < 0 || token >= vocabulary) {
      return Error{ErrorKind::invalid, "logit_bias names token id " + std::to_string(token) +
                                           "; wanted 0 to " + std::to_string(vocabulary - 1)};
    }
  }
  return {};
}

Status EngineLoop::check_mixture(const Ask& ask) const {
  const std::vector<MixtureMember>& members = ask.state.mixture;
  if (members.empty()) return {};
  const auto slots = static_cast<int64_t>(members.size());
  double sum = 0;
  for (const MixtureMember& member : members) sum += member.weight;
  if (slots > options_.slots) {
    return Error{ErrorKind::invalid, "a mixture of " + std::to_string(slots) +
                                         " states takes as many slots; " + "this server has " +
                                         std::to_string(options_.slots)};
  }
  if (!std::isfinite(sum) || sum == 0) {
    return Error{ErrorKind::invalid,
                 "the weights of a mixture add up to " + std::to_string(sum) + "; wanted another sum than 0"};
  }
  if (!ask.state.read_session.empty() || !ask.state.write_session.empty()) {
    return Error{ErrorKind::invalid, "a mixture of states has no single state that a session could keep"};
  }
  if (ask.score_prompt || ask.embed) {
    return Error{ErrorKind::invalid, "the prompt of a mixture of states cannot be scored or embedded"};
  }
  return {};
}

Status EngineLoop::submit(Request request) {
  if (request.rows.empty()) return Error{ErrorKind::invalid, "the request has no rows; wanted at least 1"};
  for (const Ask& ask : request.rows) FULMAR_TRY(check(ask));

  auto record = std::make_shared<RequestRecord>();
  record->id = request.rows.front().request_id;
  record->endpoint = std::move(request.endpoint);
  record->model = std::move(request.model);
  // Pausing takes one state out; a mixture has several.
  record->resumable =
      request.resumable && request.rows.size() == 1 && request.rows.front().state.mixture.empty();
  record->listener = std::move(request.listener);
  record->created = unix_seconds();
  record->rows = record->rows_left = static_cast<int64_t>(request.rows.size());
  {
    std::lock_guard lock(mutex_);
    if (draining_) return Error{ErrorKind::unavailable, "Server is shutting down"};
    if (waiting_requests_ >= options_.max_queue) {
      rejected_++;
      return Error{ErrorKind::unavailable, "Request queue full"};
    }
    if (!known_.emplace(record->id, record).second) {
      return Error{ErrorKind::conflict, "request id '" + record->id + "' is already running"};
    }
    waiting_requests_++;
  }
  // The rows travel in a shared box because std::function wants to be copyable.
  auto rows = std::make_shared<std::vector<Ask>>(std::move(request.rows));
  commands_.put([this, record, rows] {
    counters_.requests_total++;
    std::shared_ptr<const StopTexts> texts;
    const std::vector<std::string>* texts_of = nullptr;  // rows of a request mostly share their stop texts
    for (Ask& ask : *rows) {
      auto sequence = std::make_unique<Sequence>();
      if (texts_of == nullptr || *texts_of != ask.stop.texts)
        texts = std::make_shared<const StopTexts>(ask.stop.texts);
      sequence->output = OutputText(texts, ask.stop.include_text, ask.sampling.top_logprobs >= 0);
      sequence->ask = std::move(ask);
      texts_of = &sequence->ask.stop.texts;
      sequence->request = record;
      waiting_.push_back(std::move(sequence));
    }
  });
  return {};
}

bool EngineLoop::cancel(const std::string& request_id) {
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(request_id);
    if (found == known_.end()) return false;
    found->second->cancel_requested = true;
  }
  commands_.wake();
  return true;
}

int64_t EngineLoop::cancel_all() {
  int64_t count = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, record] : known_) record->cancel_requested = true;
    count = static_cast<int64_t>(known_.size());
  }
  commands_.wake();
  return count;
}

// Runs the task on the engine thread and waits; on a closed engine the task does not run.
void EngineLoop::call_on_engine(const std::function<void()>& task) {
  if (std::this_thread::get_id() == thread_.get_id()) return task();
  auto done = std::make_shared<std::promise<void>>();
  const bool taken = commands_.put([&task, done] {
    task();
    done->set_value();
  });
  if (taken) done->get_future().wait();
}

Result<std::string> EngineLoop::pause(const std::string& request_id) {
  Result<std::string> paused = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] { paused = pause_now(request_id); });
  return paused;
}

Status EngineLoop::resume(const std::string& request_id, int64_t max_tokens,
                          std::shared_ptr<Listener> listener) {
  Status resumed = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] { resumed = resume_now(request_id, max_tokens, std::move(listener)); });
  return resumed;
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
  EngineStats stats = stats_;  // published after steps: speeds fall without one, too
  stats.prefill_tokens_per_second = SpeedMeter(published_prefill_).per_second(Clock::now());
  stats.decode_tokens_per_second = SpeedMeter(published_decode_).per_second(Clock::now());
  return stats;
}

// ---- thread side
// --------------------------------------------------------------------------------------------------

void EngineLoop::run() {
  while (true) {
    const auto commands = moved_ ? commands_.take_all() : commands_.wait_all(idle_time());
    if (!commands.empty()) tell_all();  // they may end rows, or hand them over
    for (const auto& command : commands) command();
    if (stopping_) break;
    step();
    if (running_.empty() && waiting_.empty() && storing_.empty()) {
      for (const auto& done : std::exchange(drained_, {})) done();
    }
  }
  for (const auto& command : commands_.take_all()) command();  // somebody may wait for their answer
  cancel_all();
  obey_cancels();
  for (auto& sequence : std::exchange(storing_, {})) end_row(std::move(sequence));
  deliver();
}

// How long nothing need happen: until the next session is due in the store, or late there.
Clock::duration EngineLoop::idle_time() {
  const auto now = Clock::now();
  auto until = keeper_->sessions().tick(now).value_or(now + std::chrono::hours(1));
  for (const SequencePtr& sequence : storing_) until = std::min(until, sequence->session.waits_until);
  return std::max<Clock::duration>(until - now, std::chrono::milliseconds(1));
}

void EngineLoop::step() {
  moved_ = false;
  obey_cancels();
  end_stored_rows();
  admit();
  std::vector<PlanItem> items;
  items.reserve(running_.size());
  for (const SequencePtr& sequence : running_) {
    items.push_back({.to_feed = static_cast<int64_t>(sequence->ready().size()),
                     .until_pause = keeper_->until_snapshot(*sequence),
                     .decoding = sequence->phase == Sequence::Phase::decode,
                     .every_row = sequence->ask.score_prompt || sequence->ask.embed,
                     .slots = 1 + static_cast<int64_t>(sequence->more_slots.size())});
  }
  const auto feed = plan_step(items, {.max_rows = model_.max_rows(),
                                      .prefill_chunk = options_.prefill_chunk,
                                      .max_wanted = model_.max_wanted()});
  std::vector<StepPart> parts;
  int64_t prompt_rows = 0;
  for (size_t i = 0; i < feed.size(); i++) {
    if (feed[i] == 0) continue;
    parts.push_back({running_[i].get(), feed[i]});
    if (!items[i].decoding) prompt_rows += feed[i];
  }
  if (!parts.empty()) run_parts(parts, prompt_rows);
  // An asynchronous device gets its next step first where there is one.
  const bool later = runner_.asynchronous() && !parts.empty() && !running_.empty();
  if (!later) report();
}

void EngineLoop::run_parts(std::span<const StepPart> parts, int64_t prompt_rows) {
  moved_ = true;
  const auto before = Clock::now();
  runner_.begin(parts, keeper_->view());
  if (runner_.asynchronous()) report();
  StepRunner::Outcome outcome = runner_.finish(parts);
  const auto after = Clock::now();
  for (const StepPart& part : parts) {
    const bool decoding = part.sequence->phase == Sequence::Phase::decode;
    (decoding ? part.sequence->decode_seconds : part.sequence->prefill_seconds) +=
        seconds_between(before, after);
  }
  counters_.steps++;
  counters_.prompt_tokens += prompt_rows;
  prefill_speed_.add(prompt_rows, after);
  settle(parts, std::move(outcome));
}

// What a step leaves to do that the next one does not depend on.
void EngineLoop::report() {
  tell_all();
  const auto now = Clock::now();
  // First the figures: who has heard a row's last event does not find it still running.
  if (running_.empty() || now - published_ > kPublishEvery) publish_stats();
  deliver();
  keeper_->sessions().tick(now);
  keeper_->prefixes().prepare();
}

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
  bool any = false;
  for (auto& sequence : running_) {
    if (!sequence->request->cancel_requested || sequence->finish) continue;
    tell_all();
    sequence->finish = Finish{.reason = FinishReason::cancelled};
    any = true;
  }
  std::vector<SequencePtr> ended;
  for (auto& sequence : waiting_) {
    if (!sequence->request->cancel_requested) continue;
    sequence->finish = Finish{.reason = FinishReason::cancelled};
    ended.push_back(std::move(sequence));
  }
  if (!ended.empty()) std::erase(waiting_, nullptr);
  for (auto& sequence : ended) {
    keeper_->release(*sequence);
    end_row(std::move(sequence));
  }
  if (any) end_rows();
}

// Rows start in order of arrival, but one that has to wait for another row does not hold up those behind it.
void EngineLoop::admit() {
  bool moved = false;
  for (SequencePtr& waiting : waiting_) {
    const auto slots = std::max<int64_t>(1, static_cast<int64_t>(waiting->ask.state.mixture.size()));
    if (keeper_->free_slots() < slots) break;
    if (!keeper_->ready_to_start(*waiting, running_)) continue;
    SequencePtr sequence = std::move(waiting);
    moved = true;
    if (start_row(*sequence)) {
      running_.push_back(std::move(sequence));
    } else {
      end_row(std::move(sequence));
    }
  }
  if (moved) std::erase(waiting_, nullptr);
}

// Gives the row a slot and its first state. False when it cannot run; then it has its reason to finish.
bool EngineLoop::start_row(Sequence& sequence) {
  moved_ = true;
  leave_queue(*sequence.request);
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

// The request no longer counts against the queue's bound.
void EngineLoop::leave_queue(RequestRecord& request) {
  if (!std::exchange(request.in_queue, false)) return;
  std::lock_guard lock(mutex_);
  waiting_requests_--;
}

void EngineLoop::settle(std::span<const StepPart> parts, StepRunner::Outcome outcome) {
  int64_t drawn = 0;
  for (size_t i = 0; i < parts.size(); i++) {
    Sequence& sequence = *parts[i].sequence;
    keeper_->after_feed(sequence);
    if (outcome.has_token[i]) {
      drawn++;
      sequence.phase = Sequence::Phase::decode;
      take_token(sequence, outcome.drawn[i]);
      if (sequence.finish || text_decides(sequence)) {
        tell(sequence, outcome.drawn[i]);
      } else {
        untold_.push_back({&sequence, std::move(outcome.drawn[i])});
      }
      keeper_->after_draw(sequence);
    } else if (sequence.phase == Sequence::Phase::prefill && sequence.ready().empty()) {
      sequence.finish =
          Finish{.reason = FinishReason::length};  // max_tokens 0: the prompt was all there was to do
    }
  }
  counters_.generated_tokens += drawn;
  decode_speed_.add(drawn, Clock::now());
  end_rows();
}

// Rows that have finished leave, unless their session still wants tokens fed.
void EngineLoop::end_rows() {
  std::vector<SequencePtr> ended;
  for (auto& sequence : running_) {
    if (!sequence->finish) continue;
    switch (keeper_->close(*sequence)) {
      case Closing::feeding:
        break;
      case Closing::storing:
        storing_.push_back(std::move(sequence));
        break;
      case Closing::done:
        ended.push_back(std::move(sequence));
        break;
    }
  }
  std::erase(running_, nullptr);
  for (auto& sequence : ended) end_row(std::move(sequence));
}

// An answer is complete once its turn cannot get lost any more.
void EngineLoop::end_stored_rows() {
  for (auto& sequence : storing_) {
    if (keeper_->turn_settled(*sequence)) end_row(std::move(sequence));
  }
  std::erase(storing_, nullptr);
}

// The last event of a row that holds no slot any more.
void EngineLoop::end_row(SequencePtr sequence) {
  moved_ = true;
  RequestRecord& request = *sequence->request;
  leave_queue(request);
  add_row(request.ended_rows, *sequence);
  Event event = finished_event(*sequence);
  const FinishReason reason = event.reason;
  emit(*sequence, std::move(event));
  request_row_ended(request, reason);
}

void EngineLoop::request_row_ended(RequestRecord& request, FinishReason reason) {
  if (--request.rows_left > 0) return;
  (reason == FinishReason::cancelled ? counters_.requests_cancelled : counters_.requests_completed)++;
  counters_.last_finished = status_of(request);
  std::lock_guard lock(mutex_);
  known_.erase(request.id);
}

void EngineLoop::emit(Sequence& sequence, Event event) {
  event.at = Clock::now();
  RequestRecord& request = *sequence.request;
  if (request.outbox.empty()) to_deliver_.push_back(sequence.request);
  request.outbox.push_back(std::move(event));
}

void EngineLoop::deliver() {
  for (const auto& request : to_deliver_) request->listener->deliver(std::exchange(request->outbox, {}));
  to_deliver_.clear();
}

}  // namespace fulmar
