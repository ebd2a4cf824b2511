// The engine's thread and its doors. What follows `thread side` is touched by the engine thread alone.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/plan.h"
#include "engine/queue_room.h"
#include "engine/sequence.h"
#include "engine/speculation.h"
#include "engine/speed_meter.h"
#include "engine/state_keeper.h"
#include "engine/step_runner.h"
#include "engine/waiting_rows.h"

namespace fulmar {

class EngineLoop final : public Engine {
 public:
  EngineLoop(Model& model, const Tokenizer& tokenizer, const EngineOptions& options,
             std::unique_ptr<StateKeeper> keeper, std::unique_ptr<DraftModel> draft_model);
  ~EngineLoop() override;

  Status submit(Request request) override;
  bool cancel(const Owner& owner, const std::string& request_id) override;
  int64_t cancel_all(const Owner& owner) override;
  void stop_all() override;
  bool forget_paused(const Owner& owner, const std::string& request_id) override;
  Result<std::string> pause(const Owner& owner, const std::string& request_id) override;
  Status resume(const Owner& owner, const std::string& request_id, int64_t max_tokens,
                std::shared_ptr<Listener> listener) override;
  void drain(std::function<void()> done) override;
  EngineStats stats() const override;
  Result<std::vector<SessionInfo>> sessions(const Owner& owner) override;
  const SessionLadder* session_ladder() const override { return &keeper_->sessions().ladder(); }
  Result<bool> has_session(const Owner& owner, const std::string& id) override;
  Result<int64_t> erase_session(const Owner& owner, const std::string& id, bool and_branches) override;
  Result<StateBlob> export_session(const Owner& owner, const std::string& id) override;
  Status import_session(const Owner& owner, const std::string& id, const StateBlob& blob) override;
  Status add_states(const std::map<std::string, StateNumbers>& states) override;
  bool remove_state(const std::string& name) override;
  std::vector<std::string> states() override;
  void clear_prefixes() override;
  Result<std::shared_ptr<const DeviceAdapter>> load_adapter(std::span<const HostDelta> deltas) override;

 private:
  struct Paused {
    SequencePtr sequence;
    std::vector<std::byte> state;
  };

  // ---- doors, any thread

  std::vector<SequencePtr> make_rows(std::vector<Ask> asks, const std::shared_ptr<RequestRecord>& record);
  Status let_in(const std::shared_ptr<RequestRecord>& record, std::span<const SequencePtr> rows);
  void call_on_engine(const std::function<void()>& task);

  // ---- thread side

  void run();
  void guarded(FunctionRef<void()> work);
  enum class StatesOnDevice { lost, readable };
  // Ends the engine. The reason has two parts, who and why, since joining them may fail, too.
  void fail(const char* who, const char* why, StatesOnDevice states);
  void cancel_known();
  void end_failed_rows();
  // Begins the next step, and finishes the oldest where enough are under way. Sets moved_.
  void step();
  void hold_up_masks();
  bool begin_step();
  void run_ahead();
  void finish_step();
  void finish_steps();
  void tell(Sequence& sequence, const SampledToken& drawn);
  void tell_all();
  void report();
  void obey_cancels();
  void admit();
  bool start_row(Sequence& sequence);
  void leave_queue(Sequence& sequence);
  void take_outcome(RunningStep::Outcome outcome);
  int64_t take_drawn(const StepPart& part, std::vector<SampledToken> drawn);
  void take(Sequence& sequence, const SampledToken& token, bool among_others);
  int64_t fast_forward(Sequence& sequence);
  void end_rows();
  void end_ended();
  void end_stored_rows();
  void end_row(SequencePtr sequence);
  void emit(Sequence& sequence, Event event);
  void deliver();
  void request_row_ended(RequestRecord& request, FinishReason reason);
  void publish_stats();
  std::chrono::steady_clock::duration idle_time();
  Result<std::string> pause_now(const Owner& owner, const std::string& request_id);
  Status room_to_pause(const std::string& owner) const;
  Paused* find_paused(const Owner& owner, const std::string& request_id);
  Status resume_now(const Owner& owner, const std::string& request_id, int64_t max_tokens,
                    std::shared_ptr<Listener> listener, SessionClaimPtr claim);

  Model& model_;
  const Tokenizer& tokenizer_;
  const EngineOptions options_;
  const PlanLimits limits_;

  // shared with the doors
  Mailbox<std::function<void()>> commands_;
  mutable std::mutex mutex_;  // guards known_, stats_, rejected_, draining_, failure_, paused_owners_
  std::unordered_map<std::string, std::shared_ptr<RequestRecord>> known_;
  std::map<std::string, std::string> paused_owners_;  // by the ids of paused requests
  EngineStats stats_;
  SpeedMeter published_prefill_, published_decode_;  // under mutex_, too
  QueueRoom queue_room_;
  int64_t rejected_ = 0;
  bool draining_ = false;
  std::string failure_;  // of the device or of this thread; empty: none
  std::atomic<bool> stopping_ = false;

  // thread side
  std::unique_ptr<StateKeeper> keeper_;
  StepRunner runner_;
  const bool runs_ahead_;
  const bool forwards_;  // tokens that masks force
  Speculation speculation_;
  bool failed_ = false;  // as failure_ says
  WaitingRows waiting_;
  std::vector<SequencePtr> running_;
  std::vector<SequencePtr> ended_;  // ended, last event not yet sent; kept here so that a failure loses none
  // Drawn tokens of running rows whose text is not yet told: it decides nothing, so the next step begins
  // first.
  struct Untold {
    Sequence* sequence;
    SampledToken drawn;
  };
  std::vector<Untold> untold_;
  std::vector<SequencePtr> storing_;  // ended, but their turns are on the way to a shared store
  std::chrono::steady_clock::time_point finished_at_;  // the last step
  bool moved_ = false;  // the last step fed, started or ended a row; else only a command can change anything
  std::vector<std::shared_ptr<RequestRecord>> to_deliver_;  // requests with events of this step
  std::map<std::string, Paused> paused_;
  std::vector<std::shared_ptr<RequestRecord>> cancelled_;  // requested, not yet carried out
  std::vector<std::function<void()>> drained_;
  EngineStats counters_;
  SpeedMeter prefill_speed_, decode_speed_;
  std::chrono::steady_clock::time_point publish_at_;  // while rows run
  Thread thread_;
};

}  // namespace fulmar
