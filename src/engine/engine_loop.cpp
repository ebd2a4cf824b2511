#include "engine/engine_loop.h"

#include <algorithm>
#include <future>

#include "base/unix_time.h"
#include "engine/ask_rules.h"
#include "engine/mask_work.h"
#include "engine/plan.h"
#include "engine/request_status.h"
#include "engine/settle.h"
#include "ops/device.h"
#include "text/tokenizer.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

// Rows that a draft model drafts for at once; further ones have n-grams.
constexpr int64_t kMostDraftedRows = 64;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::start(Model& model, const Tokenizer& tokenizer,
                                              const EngineOptions& options,
                                              std::shared_ptr<SessionLadder> sessions) {
  if (options.slots < 1) {
    return Error{ErrorKind::invalid, "slots is " + std::to_string(options.slots) + "; wanted at least 1"};
  }
  if (!sessions) {
    sessions = std::make_shared<SessionLadder>(model.fingerprint(), nullptr, options.sessions);
  }
  FULMAR_ASSIGN(auto keeper, StateKeeper::make(model, options, std::move(sessions)));
  std::unique_ptr<DraftModel> draft_model;
  if (Model* small = options.speculation.draft_model; small != nullptr) {
    if (small->config().vocab != model.config().vocab) {
      return Error{ErrorKind::invalid, "the draft model has " + std::to_string(small->config().vocab) +
                                           " tokens; wanted " + std::to_string(model.config().vocab) +
                                           ", as the model has"};
    }
    const int64_t rows = std::min(options.slots, kMostDraftedRows);
    FULMAR_ASSIGN(draft_model, DraftModel::make(*small, *options.speculation.draft_ops, rows));
  }
  return std::unique_ptr<Engine>(
      std::make_unique<EngineLoop>(model, tokenizer, options, std::move(keeper), std::move(draft_model)));
}

EngineLoop::EngineLoop(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
                       std::unique_ptr<StateKeeper> keeper, std::unique_ptr<DraftModel> draft_model)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      keeper_(std::move(keeper)),
      runner_(model),
      speculation_(options.speculation,
                   {.rows = model.max_rows(),
                    .wanted = model.max_wanted(),
                    .revocable = model.steps_under_way() > 1 ? 0 : keeper_->revocable_rows()},
                   std::move(draft_model)) {
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

std::vector<SequencePtr> EngineLoop::make_rows(std::vector<Ask> asks,
                                               const std::shared_ptr<RequestRecord>& record) {
  std::vector<SequencePtr> rows;
  std::shared_ptr<const StopTexts> texts;
  const std::vector<std::string>* texts_of = nullptr;  // rows of a request mostly share their stop texts
  for (Ask& ask : asks) {
    auto sequence = std::make_unique<Sequence>();
    if (texts_of == nullptr || *texts_of != ask.stop.texts)
      texts = std::make_shared<const StopTexts>(ask.stop.texts);
    sequence->output = OutputText(texts, ask.stop.include_text, ask.sampling.top_logprobs >= 0);
    sequence->waiting_bytes = bytes_of(ask);
    sequence->ask = std::move(ask);
    texts_of = &sequence->ask.stop.texts;
    sequence->request = record;
    rows.push_back(std::move(sequence));
  }
  return rows;
}

// Makes the request known, unless there is no room for it to wait.
Status EngineLoop::let_in(const std::shared_ptr<RequestRecord>& record, std::span<const SequencePtr> rows) {
  int64_t bytes = 0;
  for (const SequencePtr& row : rows) bytes += row->waiting_bytes;
  const auto count = static_cast<int64_t>(rows.size());
  std::lock_guard lock(mutex_);
  if (!failure_.empty()) return Error{ErrorKind::unavailable, failure_};
  if (draining_) return Error{ErrorKind::unavailable, "Server is shutting down"};
  const bool too_much = waiting_rows_ > 0 && (waiting_rows_ + count > options_.max_waiting_rows ||
                                              waiting_bytes_ + bytes > options_.max_waiting_bytes);
  if (waiting_requests_ >= options_.max_queue || too_much) {
    rejected_++;
    return Error{ErrorKind::unavailable, "Request queue full"};
  }
  if (!known_.emplace(record->id, record).second) {
    return Error{ErrorKind::conflict, "request id '" + record->id + "' is already running"};
  }
  waiting_requests_++;
  waiting_rows_ += count;
  waiting_bytes_ += bytes;
  return {};
}

Status EngineLoop::submit(Request request) {
  if (request.rows.empty()) return Error{ErrorKind::invalid, "the request has no rows; wanted at least 1"};
  const AskLimits limits{.vocabulary = model_.config().vocab,
                         .slots = options_.slots,
                         .max_prompt_tokens = options_.max_prompt_tokens};
  for (const Ask& ask : request.rows) FULMAR_TRY(check_ask(ask, limits));

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
  // The rows travel in a shared box because std::function wants to be copyable.
  auto rows = std::make_shared<std::vector<SequencePtr>>(make_rows(std::move(request.rows), record));
  FULMAR_TRY(let_in(record, *rows));
  commands_.put([this, record, rows] {
    counters_.requests_total++;
    waiting_.add(std::move(*rows));
    if (record->cancel_requested) cancelled_.push_back(record);  // before its rows had arrived
  });
  return {};
}

bool EngineLoop::cancel(const std::string& request_id) {
  std::shared_ptr<RequestRecord> record;
  {
    std::lock_guard lock(mutex_);
    const auto found = known_.find(request_id);
    if (found == known_.end()) return false;
    record = found->second;
    record->cancel_requested = true;
  }
  commands_.put([this, record] { cancelled_.push_back(record); });
  return true;
}

int64_t EngineLoop::cancel_all() {
  std::vector<std::shared_ptr<RequestRecord>> records;
  {
    std::lock_guard lock(mutex_);
    for (auto& [id, record] : known_) {
      record->cancel_requested = true;
      records.push_back(record);
    }
  }
  commands_.put([this, records] { cancelled_.insert(cancelled_.end(), records.begin(), records.end()); });
  return static_cast<int64_t>(records.size());
}

// Runs the task on the engine thread and waits; on a closed engine the task does not run.
void EngineLoop::call_on_engine(const std::function<void()>& task) {
  if (std::this_thread::get_id() == thread_.get_id()) return task();
  struct Done {  // said also when the device fails within the task
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

Result<std::string> EngineLoop::pause(const std::string& request_id) {
  Result<std::string> paused = Error{ErrorKind::unavailable, "Server is shutting down"};
  call_on_engine([&] { paused = pause_now(request_id); });
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
  EngineStats stats = stats_;  // published after steps: speeds fall without one, too
  stats.prefill_tokens_per_second = SpeedMeter(published_prefill_).per_second(Clock::now());
  stats.decode_tokens_per_second = SpeedMeter(published_decode_).per_second(Clock::now());
  return stats;
}

// ---- thread side
// --------------------------------------------------------------------------------------------------

void EngineLoop::run() {
  while (true) {
    Clock::duration idle{};
    if (!moved_) guarded([&] { idle = idle_time(); });
    const auto commands = moved_ ? commands_.take_all() : commands_.wait_all(idle);
    if (!commands.empty()) guarded([&] { tell_all(); });  // they may end rows, or hand them over
    for (const auto& command : commands) guarded(command);
    if (stopping_) break;
    guarded([&] { step(); });
    if (running_.empty() && waiting_.empty() && storing_.empty()) {
      for (const auto& done : std::exchange(drained_, {})) done();
    }
  }
  for (const auto& command : commands_.take_all()) guarded(command);  // somebody may wait for their answer
  guarded([&] { finish_steps(); });
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, record] : known_) {
      record->cancel_requested = true;
      cancelled_.push_back(record);
    }
  }
  obey_cancels();
  for (auto& sequence : std::exchange(storing_, {})) end_row(std::move(sequence));
  deliver();
  guarded([&] { keeper_->sessions().leave(); });
}

// Everything that may reach the device runs in here.
void EngineLoop::guarded(FunctionRef<void()> work) {
  try {
    work();
  } catch (const DeviceFailure& failure) {
    if (!failed_) device_failed(failure.what());
  }
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
  if (failed_) return end_failed_rows();
  keeper_->sessions().serve();
  obey_cancels();
  end_stored_rows();
  admit();
  const bool begun = begin_step();
  const int64_t under_way = runner_.under_way();
  const bool waits = under_way > 0 && (!begun || under_way == model_.steps_under_way());
  if (waits) {
    if (runner_.asynchronous()) report();
    finish_step();
  }
  // An asynchronous device gets its next step first where there is one.
  const bool later = runner_.asynchronous() && (begun || waits) && !running_.empty();
  if (!later) report();
}

// Rows that would draw and whose masks are not made in time are not fed.
void EngineLoop::hold_up_masks() {
  std::vector<MaskItem> items;
  std::vector<Sequence*> rows;
  for (const SequencePtr& sequence : running_) {
    const bool may_draw = !sequence->under_way && sequence->phase != Sequence::Phase::closing &&
                          static_cast<int64_t>(sequence->ready().size()) <= model_.max_rows();
    if (!sequence->ask.mask || !may_draw) continue;
    items.push_back({sequence->ask.mask.get(), sequence->waits_for_mask});
    rows.push_back(sequence.get());
  }
  const std::vector<bool> draws = share_mask_work(items);
  for (size_t i = 0; i < rows.size(); i++)
    rows[i]->waits_for_mask = draws[i] ? 0 : rows[i]->waits_for_mask + 1;
}

// False where no row has anything to feed.
bool EngineLoop::begin_step() {
  hold_up_masks();
  speculation_.prepare(running_);
  std::vector<PlanItem> items;
  items.reserve(running_.size());
  PlanTotal total;
  for (const SequencePtr& sequence : running_) {
    PlanItem item{.to_feed = static_cast<int64_t>(sequence->ready().size()),
                  .until_pause = keeper_->until_snapshot(*sequence),
                  .decoding = sequence->phase == Sequence::Phase::decode,
                  .drafts = static_cast<int64_t>(sequence->drafts.tokens.size()),
                  .every_row = sequence->ask.score_prompt || sequence->ask.embed,
                  .slots = 1 + static_cast<int64_t>(sequence->more_slots.size())};
    total.add(item);
    if (sequence->under_way || sequence->waits_for_mask > 0) item.to_feed = item.drafts = 0;
    items.push_back(item);
  }
  const PlanLimits limits{.max_rows = model_.max_rows(),
                          .prefill_chunk = options_.prefill_chunk,
                          .max_wanted = model_.max_wanted()};
  const auto feed = plan_step(items, share_limits(limits, total, model_.steps_under_way()));
  std::vector<StepPart> parts;
  for (size_t i = 0; i < feed.size(); i++) {
    if (feed[i] == 0) continue;
    const int64_t ready = std::min(feed[i], items[i].to_feed);
    parts.push_back({running_[i].get(), ready, feed[i] - ready});
  }
  if (parts.empty()) return false;
  moved_ = true;
  runner_.begin(std::move(parts), keeper_->pool());
  return true;
}

void EngineLoop::finish_step() {
  moved_ = true;
  RunningStep::Outcome outcome = runner_.finish();
  const auto after = Clock::now();
  int64_t prompt_rows = 0;
  for (const StepPart& part : outcome.parts) {
    const bool decoding = part.sequence->phase == Sequence::Phase::decode;
    if (!decoding) prompt_rows += part.count;
    (decoding ? part.sequence->decode_seconds : part.sequence->prefill_seconds) +=
        seconds_between(outcome.begun, after);
  }
  if (prompt_rows == 0) speculation_.timed(outcome.rows, seconds_between(outcome.begun, after));
  counters_.steps++;
  counters_.prompt_tokens += prompt_rows;
  prefill_speed_.add(prompt_rows, after);
  settle(std::move(outcome));
}

// All that was begun, and what came of it is told: rows may be ended behind this.
void EngineLoop::finish_steps() {
  while (runner_.under_way() > 0) {
    tell_all();
    finish_step();
  }
  tell_all();
}

// What a step leaves to do that the next one does not depend on.
void EngineLoop::report() {
  tell_all();
  const auto now = Clock::now();
  // First the figures: who has heard a row's last event does not find it still running.
  if (running_.empty() || now >= publish_at_) publish_stats();
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
  if (cancelled_.empty()) return;
  std::vector<SequencePtr> ended;
  for (const auto& request : std::exchange(cancelled_, {})) {
    for (SequencePtr& row : waiting_.take(*request)) ended.push_back(std::move(row));
  }
  for (SequencePtr& sequence : ended) {
    sequence->finish = Finish{.reason = FinishReason::cancelled};
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
    sequence->finish = Finish{.reason = FinishReason::cancelled};
    any = true;
  }
  if (any) end_rows();
}

// Rows start in order of arrival, but one that has to wait for another row does not hold up those behind it.
void EngineLoop::admit() {
  using Offer = WaitingRows::Offer;
  waiting_.offer([&](SequencePtr& waiting) {
    const auto slots = std::max<int64_t>(1, static_cast<int64_t>(waiting->ask.state.mixture.size()));
    if (keeper_->free_slots() < slots) return Offer::closed;
    if (!keeper_->ready_to_start(*waiting, running_)) return Offer::passed;
    const bool started = start_row(*waiting);
    (started ? running_ : ended_).push_back(std::move(waiting));
    return Offer::taken;
  });
  end_ended();
}

// Gives the row a slot and its first state. False when it cannot run; then it has its reason to finish.
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

// The row waits no more, and with its first one the request.
void EngineLoop::leave_queue(Sequence& sequence) {
  const int64_t bytes = std::exchange(sequence.waiting_bytes, 0);
  if (bytes > 0) waiting_rows_--;
  waiting_bytes_ -= bytes;
  if (!std::exchange(sequence.request->in_queue, false)) return;
  std::lock_guard lock(mutex_);
  waiting_requests_--;
}

void EngineLoop::settle(RunningStep::Outcome outcome) {
  int64_t drawn = 0;
  for (size_t i = 0; i < outcome.parts.size(); i++) {
    Sequence& sequence = *outcome.parts[i].sequence;
    keeper_->after_feed(sequence);
    if (!outcome.drawn[i].empty()) {
      drawn += take_drawn(outcome.parts[i], std::move(outcome.drawn[i]));
    } else if (sequence.phase == Sequence::Phase::prefill && sequence.ready().empty()) {
      sequence.finish =
          Finish{.reason = FinishReason::length};  // max_tokens 0: the prompt was all there was to do
    }
  }
  counters_.generated_tokens += drawn;
  decode_speed_.add(drawn, Clock::now());
  end_rows();
}

// Takes the tokens up to the one that ends the row, and rolls its state back to the row that has drawn the
// last of them. Returns how many.
int64_t EngineLoop::take_drawn(const StepPart& part, std::vector<SampledToken> drawn) {
  Sequence& sequence = *part.sequence;
  sequence.phase = Sequence::Phase::decode;
  size_t taken = 0;
  while (taken < drawn.size() && !sequence.finish) {
    SampledToken& token = drawn[taken++];
    take_token(sequence, token);
    // Those of one step are told in order, before the row may end by one of them.
    if (sequence.finish || text_decides(sequence) || drawn.size() > 1) {
      tell(sequence, token);
    } else {
      untold_.push_back({&sequence, token});
    }
  }
  const size_t kept = sequence.drawn_fed + taken - 1;
  sequence.drawn_fed += static_cast<size_t>(part.drafts);
  if (sequence.drawn_fed > kept) keeper_->roll_back(sequence, kept);
  speculation_.learn(sequence, part.drafts, std::span(drawn).first(taken));
  keeper_->after_draw(sequence);
  return static_cast<int64_t>(taken);
}

// Rows that have finished leave, unless their session still wants tokens fed.
void EngineLoop::end_rows() {
  for (auto& sequence : running_) {
    if (!sequence->finish) continue;
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
  leave_queue(*sequence);
  speculation_.leave(*sequence);
  add_row(request.ended_rows, *sequence);
  Event event = finished_event(*sequence, tokenizer_);
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
  for (const auto& request : to_deliver_) {
    request->listener->deliver(std::exchange(request->outbox, {}));
    // A paused row keeps its request, and the listener holds the model that the engine belongs to.
    if (request->rows_left == 0) request->listener.reset();
  }
  to_deliver_.clear();
}

}  // namespace fulmar
