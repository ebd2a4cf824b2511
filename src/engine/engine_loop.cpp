// The engine's thread: takes commands, begins steps and finishes them.
#include "engine/engine_loop.h"

#include <algorithm>
#include <exception>
#include <span>

#include "base/unix_time.h"
#include "engine/mask_work.h"
#include "engine/plan_limits.h"
#include "engine/run_ahead.h"
#include "ops/device.h"

namespace fulmar {

namespace {

using Clock = std::chrono::steady_clock;

// The most rows that a draft model drafts for at once; further ones use n-grams.
constexpr int64_t kMostDraftedRows = 64;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Returns a sequence's numbers for the planner; `until_snapshot` tokens are left before its state has to be
// saved.
PlanItem plan_item(const Sequence& sequence, int64_t until_snapshot) {
  return {.to_feed = static_cast<int64_t>(sequence.ready().size()),
          .until_pause = until_snapshot,
          .decoding = sequence.phase == Sequence::Phase::decode,
          .drafts = static_cast<int64_t>(sequence.drafts.tokens.size()),
          .every_row = sequence.ask.score_prompt || sequence.ask.embed,
          .slots = 1 + static_cast<int64_t>(sequence.more_slots.size())};
}

// Returns how many tokens of a prompt are fed together: a piece, or any number. Tokens that a row feeds after
// its end are fed at once.
int64_t piece_of(const Sequence& sequence, const PlanItem& item, const PlanLimits& limits, int64_t piece) {
  if (piece == 0 || item.decoding) return 0;
  if (sequence.phase == Sequence::Phase::closing) return next_piece(limits, item, limits.max_rows, 0);
  return next_piece(limits, item, piece, static_cast<int64_t>(sequence.fed + sequence.begun));
}

// Returns whether a row may be fed while a step that feeds it is under way: in a pipeline the next piece of a
// prompt can begin on stages that the one before has left. Not where the state after that step is needed: to
// copy it, to cancel the row, to score or pool its outputs, or to compute its mask.
bool may_be_fed(const Sequence& sequence, int64_t until_snapshot) {
  if (sequence.waits_for_mask > 0) return false;
  if (sequence.under_way == 0) return true;
  const Ask& ask = sequence.ask;
  const bool to_copy = !sequence.snapshot_points.empty() && until_snapshot == 0;
  return sequence.phase == Sequence::Phase::prefill && !to_copy && !sequence.request->cancel_requested &&
         !ask.score_prompt && !ask.embed && !ask.mask;
}

// Returns whether f16 states make bits depend on where steps cut a row, in a
// mode in which they must not.
bool rounds_by_steps(StateKeeper& keeper, const EngineOptions& options) {
  return options.prompt_piece > 0 && keeper.pool().layout().wkv_dtype == DType::f16;
}

// Returns a part for each sequence that is fed, drafted tokens last. Sequences of one row come first:
// backends have kernels for them.
std::vector<StepPart> step_parts(std::span<const SequencePtr> running, std::span<const PlanItem> items,
                                 std::span<const int64_t> feed) {
  std::vector<StepPart> parts;
  for (size_t i = 0; i < feed.size(); i++) {
    if (feed[i] == 0) continue;
    const int64_t ready = std::min(feed[i], items[i].to_feed);
    parts.push_back({running[i].get(), ready, feed[i] - ready});
  }
  std::stable_partition(parts.begin(), parts.end(),
                        [](const StepPart& part) { return part.count + part.drafts == 1; });
  return parts;
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
      limits_(plan_limits(model, options.prefill_chunk)),
      queue_room_({.requests = options.max_queue,
                   .rows = options.max_waiting_rows,
                   .bytes = options.max_waiting_bytes}),
      keeper_(std::move(keeper)),
      runner_(model),
      runs_ahead_(options.run_ahead.value_or(model.asynchronous()) && model.draws_ahead()),
      forwards_(options.fast_forward && !rounds_by_steps(*keeper_, options)),
      speculation_(options.speculation,
                   {.rows = model.max_rows(),
                    .wanted = model.max_wanted(),
                    .revocable = model.steps_under_way() > 1 ? 0 : keeper_->revocable_rows()},
                   std::move(draft_model)) {
  counters_.start_time = unix_seconds();
  publish_stats();
  keeper_->sessions().on_news([this] { commands_.wake(); });
  thread_ = Thread("engine", [this] { run(); });
}

EngineLoop::~EngineLoop() {
  stopping_ = true;
  commands_.close();
  thread_.join();
}

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
      for (const auto& done : std::exchange(drained_, {})) guarded(done);
    }
  }
  // callers may be waiting for their result
  for (const auto& command : commands_.take_all()) guarded(command);
  guarded([&] { finish_steps(); });
  guarded([&] { cancel_known(); });
  guarded([&] {
    for (auto& sequence : std::exchange(storing_, {})) end_row(std::move(sequence));
  });
  guarded([&] { deliver(); });
  guarded([&] { keeper_->sessions().leave(); });
}

void EngineLoop::cancel_known() {
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, record] : known_) {
      record->cut_as = FinishReason::stopping;
      record->cancel_requested = true;
      cancelled_.push_back(record);
    }
  }
  obey_cancels();
}

// Runs work that may use the device or run out of memory, and never throws. After an exception it is unknown
// what is half done, so the engine ends, but states on the device can still be read.
void EngineLoop::guarded(FunctionRef<void()> work) {
  try {
    work();
  } catch (const DeviceFailure& failure) {
    fail("the device has failed: ", failure.what(), StatesOnDevice::lost);
  } catch (const std::exception& failure) {
    fail("the engine has failed: ", failure.what(), StatesOnDevice::readable);
  }
}

// Returns how long the thread may sleep: until the next session is due in the store, or late there.
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
  const bool begun = !runner_.ahead() && begin_step();  // else arrivals wait for the step's rows
  run_ahead();
  const int64_t under_way = runner_.under_way();
  const bool waits = under_way > 0 && (!begun || under_way >= model_.steps_under_way());
  if (waits) {
    if (runner_.asynchronous()) report();
    finish_step();
  }
  // An asynchronous device gets its next step before the report, where there is one.
  const bool later = runner_.asynchronous() && (begun || waits) && !running_.empty();
  if (!later) report();
}

// Holds back rows that would draw but whose masks are not computed in time.
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

// Returns false where no row has anything to feed.
bool EngineLoop::begin_step() {
  hold_up_masks();
  speculation_.prepare(running_);
  std::vector<PlanItem> items;
  items.reserve(running_.size());
  PlanTotal total;
  for (const SequencePtr& sequence : running_) {
    PlanItem item = plan_item(*sequence, keeper_->until_snapshot(*sequence));
    item.piece = piece_of(*sequence, item, limits_, options_.prompt_piece);
    total.add(item);
    if (!may_be_fed(*sequence, item.until_pause)) item.to_feed = item.drafts = 0;
    items.push_back(item);
  }
  const auto padded = [this](int64_t rows) { return model_.padded_rows(rows); };
  const auto feed = plan_step(items, share_limits(limits_, total, model_.steps_under_way(), padded));
  std::vector<StepPart> parts = step_parts(running_, items, feed);
  if (parts.empty()) return false;
  moved_ = true;
  runner_.begin(std::move(parts), keeper_->pool());
  return true;
}

// Begins the draws of a step that all running rows are in, if all their tokens allow it, then the next step
// of the rows that continue.
void EngineLoop::run_ahead() {
  const auto parts = runner_.parts();
  if (!runs_ahead_) return;
  std::vector<bool> each;
  size_t left = 0;
  for (const StepPart& part : parts) {
    each.push_back(part.sequence != nullptr && goes_on(*part.sequence));
    if (part.sequence == nullptr) continue;
    if (part.count != 1 || part.drafts > 0 || !runs_ahead(*part.sequence)) return;
    left++;
  }
  if (left == 0 || left < running_.size()) return;
  // The newest step's drafts were looked up just now; those of a step begun ahead are not, so ask again.
  if (runner_.ahead() && speculation_.would_draft(running_)) return;
  if (!runner_.begin_draws()) return;
  // A row that is alone from now on gets its ring written to the state first, which return_to_mark cannot
  // undo.
  const auto going = std::count(each.begin(), each.end(), true);
  if (keeper_->pool().ring().rows > 0 && going == 1 && parts.size() > 1) return;
  moved_ = runner_.begin_ahead(each, keeper_->pool()) || moved_;
}

void EngineLoop::finish_step() {
  moved_ = true;
  RunningStep::Outcome outcome = runner_.finish();
  const auto after = Clock::now();
  // The time during which the previous step was still running is not its own.
  if (outcome.ahead) outcome.begun = std::max(outcome.begun, finished_at_);
  finished_at_ = after;
  int64_t prompt_rows = 0;
  for (const StepPart& part : outcome.parts) {
    const bool decoding = part.sequence->phase == Sequence::Phase::decode;
    if (!decoding) prompt_rows += part.count;
    const auto from = std::max(outcome.begun, std::exchange(part.sequence->fed_at, after));
    (decoding ? part.sequence->decode_seconds : part.sequence->prefill_seconds) +=
        seconds_between(from, after);
  }
  if (prompt_rows == 0) speculation_.timed(outcome.rows, seconds_between(outcome.begun, after));
  counters_.steps++;
  counters_.prompt_tokens += prompt_rows;
  prefill_speed_.add(prompt_rows, after);
  take_outcome(std::move(outcome));
}

// Finishes all steps and tells their results; rows may be ended afterwards.
void EngineLoop::finish_steps() {
  while (runner_.under_way() > 0) {
    tell_all();
    finish_step();
  }
  tell_all();
}

// Does the work after a step that the next one does not depend on.
void EngineLoop::report() {
  tell_all();
  const auto now = Clock::now();
  // Figures first: whoever gets a row's last event does not find the row still running.
  if (running_.empty() || now >= publish_at_) publish_stats();
  deliver();
  keeper_->sessions().tick(now);
  keeper_->prefixes().prepare();
}

}  // namespace fulmar
